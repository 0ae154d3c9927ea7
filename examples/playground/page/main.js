// The page: connects its parts, and shows everything except the timeline.

import { NAMES, now, numberOf, SHAPES, seconds, tokenText } from './names.js';
import { commandsOf } from './server.js';
import { Stage } from './stage.js';
import { Timeline } from './timeline.js';
import { Tour } from './tour.js';

const SHOW_EVERY_MS = 200;
const SPANS_EVERY_MS = 1_000;
const LOG_LINES = 14;
/** Screen readers announce at most one text in this time, the newest. */
const ANNOUNCE_EVERY_MS = 1_500;

const NOTES = {
  lock: 'One holder, and no order among clients: whoever asks first has it.',
  mutex: 'As a lock, but not reentrant, and with the record that most other lock libraries write.',
  fair: 'One holder, in order of arrival at the server.',
  readWrite:
    'Ada and Ben write, Cleo and Dan read. Readers hold it together, a writer alone. Readers have no token and write nothing.',
  semaphore: 'Two at a time. Permits have no tokens, so nobody writes to the stores.',
  multi: 'Two locks as one: both or none. The whole has no token, so nobody writes to the stores.',
};

let announcement;
let isAnnouncing = false;
let announcedAt = 0;

const shown = (id) => document.getElementById(id);
/** The factor for pauses that only give the reader time: `?pace=0.2` makes them five times shorter. */
const pace = Number(new URLSearchParams(location.search).get('pace') ?? 1);
const stage = new Stage(Object.fromEntries(NAMES.map((name) => [name, shown(name)])), pace);
const tour = new Tour(stage, announce, pace);
new Timeline(stage, shown('timeline'));

/** Announces a text to screen readers, unless a newer text follows at once. */
function announce(text) {
  announcement = text;
  if (isAnnouncing) return;
  isAnnouncing = true;
  setTimeout(
    () => {
      isAnnouncing = false;
      announcedAt = now();
      shown('announcer').textContent = announcement;
    },
    Math.max(50, announcedAt + ANNOUNCE_EVERY_MS - now()),
  );
}

function show() {
  isShown = false;
  showNow();
  showStore('fenced');
  showStore('unfenced');
  const { kind } = stage.settings;
  const { queue } = stage.server;
  shown('server').textContent =
    `The server’s lane is read by ${commandsOf(kind, stage.lockName)}` +
    (queue.length > 0 ? `. In its queue: ${queue.join(', ')}` : '');
  shown('controls').disabled = stage.isPlaying;
  press('repeat', isContending());
  press('stop', stage.isStopped);
  const highest = Math.max(...Object.values(stage.stores).map(({ seen }) => seen));
  shown('stores-note').textContent =
    'A holder reads both balances, works, looks at its lease, and writes what it has made of them. Tokens have 16 digits; here they are numbered as they come' +
    (highest > 0 ? `, so token ${numberOf(highest)} is ${highest}.` : '.');
}

function press(id, isPressed) {
  shown(id).setAttribute('aria-pressed', String(isPressed));
}

/** Shows the state soon, once for all changes until then. */
function wantShow() {
  if (isShown) return;
  isShown = true;
  requestAnimationFrame(show);
}
let isShown = false;

const BELIEVES = {
  off: 'starts',
  dead: 'killed',
  idle: 'idle',
  waits: 'waits',
  holds: 'holds the lock',
  lost: 'lease lost',
};

function showNow() {
  const clients = stage.all.map(({ name, phase, until, token, isPaused, isCut }) => [
    `${SHAPES[name]} ${name}`,
    isPaused ? `stands still (${BELIEVES[phase]})` : BELIEVES[phase],
    phase === 'holds' ? `${(Math.max(0, until - now()) / 1_000).toFixed(1)} s` : '–',
    phase === 'holds' ? tokenText(token) : '–',
    isCut || stage.isStopped ? 'cut' : 'open',
  ]);
  const held = stage.server.held.map(({ row, who, left }) => [
    `the server’s record${row ? `: ${row}` : ''}`,
    `${SHAPES[who] ?? ''} ${who}`,
    `${(left / 1_000).toFixed(1)} s`,
    '–',
    stage.isStopped ? 'stopped' : 'open',
  ]);
  const free = [['the server’s record', 'nobody', '–', '–', stage.isStopped ? 'stopped' : 'open']];
  fill(shown('now'), [...clients, ...(held.length > 0 ? held : free)]);
}

function showStore(id) {
  const { balance, seen, missing, writes } = stage.stores[id];
  const big = make('p', 'balance', `${balance}`);
  big.dataset.missing = missing;
  const verdict = missing > 0 ? `${missing} are lost: it should be ${balance + missing}` : 'nothing is lost';
  const parts = [big, make('p', missing > 0 ? 'bad' : 'good', verdict)];
  if (id === 'fenced') {
    parts.push(make('p', 'faint', seen > 0 ? `highest token seen: ${numberOf(seen)}` : 'no token seen yet'));
  } else {
    parts.push(make('p', 'faint', 'looks at no token'));
  }
  const list = make('ul', 'writes');
  for (const { who, value, token, outcome, lost, seen: before } of writes.slice(0, 3)) {
    const isBad = outcome === 'refused' || lost > 0;
    const item = make('li', isBad ? 'bad' : '', `${SHAPES[who]} ${who} writes ${value}, `);
    const more = outcome === 'refused' ? ` < ${numberOf(before)}` : lost > 0 ? `, ${lost} lost` : '';
    item.append(make('strong', '', `${outcome}: token ${numberOf(token)}${more}`));
    list.append(item);
  }
  parts.push(list);
  const place = shown(id);
  const fresh = make('div', '', '');
  fresh.append(...parts);
  if (place.innerHTML !== fresh.innerHTML) place.replaceChildren(...fresh.childNodes);
}

function showSpans() {
  if (!shown('spans').open) return;
  const since = (at) => seconds(at - stage.history.epoch);
  const rows = stage.history.spans
    .filter(({ kind }) => kind !== 'record')
    .map(({ lane, kind, from, to, token }) => [
      lane,
      kind,
      since(from),
      to ? since(to) : 'now',
      token ? tokenText(token) : '–',
    ]);
  const records = stage.history.spans
    .filter(({ kind }) => kind === 'record')
    .map(({ who, from, to }) => ['server', `record of ${who}`, since(from), to ? since(to) : 'now', '–']);
  fill(shown('spans-rows'), [...rows, ...records]);
}

function showSaid({ text, loud }) {
  const item = make('li', '', '');
  item.append(make('span', 'faint', seconds(now() - stage.history.epoch)), ` ${text}`);
  shown('log').prepend(item);
  while (shown('log').childElementCount > LOG_LINES) shown('log').lastElementChild.remove();
  if (loud && !stage.isPlaying) announce(loud);
}

function make(tag, look, text) {
  const it = document.createElement(tag);
  if (look) it.className = look;
  if (text) it.textContent = text;
  return it;
}

/** Fills a table's body, and changes only the cells with new text. */
function fill(body, rows) {
  while (body.rows.length > rows.length) body.deleteRow(-1);
  rows.forEach((cells, i) => {
    const row = body.rows[i] ?? body.insertRow();
    cells.forEach((text, j) => {
      const cell = row.cells[j] ?? row.appendChild(document.createElement(j === 0 ? 'th' : 'td'));
      if (j === 0) cell.scope = 'row';
      if (cell.textContent !== text) cell.textContent = text;
    });
  });
}

const isContending = () => stage.all.some(({ isRepeating }) => isRepeating);

const again = (settings) => stage.reset(settings);

shown('kind').addEventListener('change', ({ target }) => again({ kind: target.value }));
shown('lease').addEventListener('change', ({ target }) => again({ leaseMs: Number(target.value) }));
shown('renew').addEventListener('change', ({ target }) => again({ renew: target.checked }));
shown('again').addEventListener('click', () => again({}));
shown('repeat').addEventListener('click', () => {
  const isOn = !isContending();
  for (const client of stage.all) if (client.phase !== 'dead') client.repeat(isOn);
  wantShow();
});
shown('stop').addEventListener('click', () => stage.stop(!stage.isStopped));
shown('flush').addEventListener('click', () => stage.loseData());
shown('settings').addEventListener('submit', (event) => event.preventDefault());

const theme = shown('theme');
theme.value = localStorage.getItem('theme') ?? '';
function paint() {
  const documents = [document, ...stage.all.map((client) => client.document)];
  for (const { documentElement } of documents) {
    // A frame that is still loading has no document yet. It is painted when it has loaded.
    if (documentElement) documentElement.dataset.theme = theme.value;
  }
}
theme.addEventListener('change', () => {
  localStorage.setItem('theme', theme.value);
  paint();
});
for (const name of NAMES) shown(name).addEventListener('load', paint);
paint();

stage.addEventListener('change', wantShow);
stage.addEventListener('said', ({ detail }) => showSaid(detail));
stage.addEventListener('reset', () => {
  const { kind, leaseMs, renew } = stage.settings;
  shown('kind').value = kind;
  shown('lease').value = leaseMs;
  shown('renew').checked = renew;
  shown('kind-note').textContent = NOTES[kind];
  shown('log').replaceChildren();
});
setInterval(wantShow, SHOW_EVERY_MS);
setInterval(showSpans, SPANS_EVERY_MS);
shown('spans').addEventListener('toggle', showSpans);

// Tests and the browser's console use this.
window.playground = { stage, tour };
await stage.reset({});

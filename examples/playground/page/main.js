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
  lock: 'One holder, and no order among clients: the first to ask is granted it.',
  mutex: 'As a lock, but not reentrant, and with the record that most other lock libraries write.',
  fair: 'One holder, in order of arrival at the server.',
  readWrite:
    'Ada and Ben write, Cleo and Dan read. Readers hold it together, a writer alone. Readers have no token and write nothing.',
  semaphore: 'Two at a time. Permits have no tokens, so nobody writes to the stores.',
  multi: 'Two locks as one: both or none. A multi-lock has no token, so nobody writes to the stores.',
};

let announcement;
let isAnnouncing = false;
let announcedAt = 0;

const byId = (id) => document.getElementById(id);
/** The factor for pauses that only give the reader time: `?pace=0.2` makes them five times shorter. */
const pace = Number(new URLSearchParams(location.search).get('pace') ?? 1);
const stage = new Stage(Object.fromEntries(NAMES.map((name) => [name, byId(name)])), pace);
const tour = new Tour(stage, announce, pace);
new Timeline(stage, byId('timeline'));

/** Announces a text to screen readers, unless a newer text follows at once. */
function announce(text) {
  announcement = text;
  if (isAnnouncing) return;
  isAnnouncing = true;
  setTimeout(
    () => {
      isAnnouncing = false;
      announcedAt = now();
      byId('announcer').textContent = announcement;
    },
    Math.max(50, announcedAt + ANNOUNCE_EVERY_MS - now()),
  );
}

function show() {
  isShowScheduled = false;
  showNow();
  showStore('fenced');
  showStore('unfenced');
  const { kind } = stage.settings;
  const { queue } = stage.server;
  byId('server').textContent =
    `The server’s lane is read by ${commandsOf(kind, stage.lockName)}` +
    (queue.length > 0 ? `. In its queue: ${queue.join(', ')}` : '');
  byId('controls').disabled = stage.isPlaying;
  press('repeat', isContending());
  press('stop', stage.isStopped);
  const highest = Math.max(...Object.values(stage.stores).map(({ highestToken }) => highestToken));
  byId('stores-note').textContent =
    'A holder reads both balances, works, checks its lease, and writes the new balances. Tokens have 16 digits; here they are numbered in order' +
    (highest > 0 ? `, so token ${numberOf(highest)} is ${highest}.` : '.');
}

function press(id, isPressed) {
  byId(id).setAttribute('aria-pressed', String(isPressed));
}

/** Shows the state in the next frame, once for all changes until then. */
function scheduleShow() {
  if (isShowScheduled) return;
  isShowScheduled = true;
  requestAnimationFrame(show);
}
let isShowScheduled = false;

const PHASES = {
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
    isPaused ? `paused (${PHASES[phase]})` : PHASES[phase],
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
  fill(byId('now'), [...clients, ...(held.length > 0 ? held : free)]);
}

function showStore(id) {
  const { balance, highestToken, missing, writes } = stage.stores[id];
  const big = make('p', 'balance', `${balance}`);
  big.dataset.missing = missing;
  const result = missing > 0 ? `${missing} are lost: it should be ${balance + missing}` : 'nothing is lost';
  const parts = [big, make('p', missing > 0 ? 'bad' : 'good', result)];
  if (id === 'fenced') {
    parts.push(make('p', 'faint', highestToken > 0 ? `highest token: ${numberOf(highestToken)}` : 'no token yet'));
  } else {
    parts.push(make('p', 'faint', 'ignores tokens'));
  }
  const list = make('ul', 'writes');
  for (const { who, value, token, outcome, lost, highestToken: before } of writes.slice(0, 3)) {
    const isBad = outcome === 'refused' || lost > 0;
    const item = make('li', isBad ? 'bad' : '', `${SHAPES[who]} ${who} writes ${value}, `);
    const more = outcome === 'refused' ? ` < ${numberOf(before)}` : lost > 0 ? `, ${lost} lost` : '';
    item.append(make('strong', '', `${outcome}: token ${numberOf(token)}${more}`));
    list.append(item);
  }
  parts.push(list);
  const place = byId(id);
  const fresh = make('div', '', '');
  fresh.append(...parts);
  if (place.innerHTML !== fresh.innerHTML) place.replaceChildren(...fresh.childNodes);
}

function showSpans() {
  if (!byId('spans').open) return;
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
  fill(byId('spans-rows'), [...rows, ...records]);
}

function showLogLine({ text, announcement }) {
  const item = make('li', '', '');
  item.append(make('span', 'faint', seconds(now() - stage.history.epoch)), ` ${text}`);
  byId('log').prepend(item);
  while (byId('log').childElementCount > LOG_LINES) byId('log').lastElementChild.remove();
  if (announcement && !stage.isPlaying) announce(announcement);
}

function make(tag, className, text) {
  const it = document.createElement(tag);
  if (className) it.className = className;
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

const restart = (settings) => stage.reset(settings);

byId('kind').addEventListener('change', ({ target }) => restart({ kind: target.value }));
byId('lease').addEventListener('change', ({ target }) => restart({ leaseMs: Number(target.value) }));
byId('renew').addEventListener('change', ({ target }) => restart({ renew: target.checked }));
byId('again').addEventListener('click', () => restart({}));
byId('repeat').addEventListener('click', () => {
  const isOn = !isContending();
  for (const client of stage.all) if (client.phase !== 'dead') client.repeat(isOn);
  scheduleShow();
});
byId('stop').addEventListener('click', () => stage.stop(!stage.isStopped));
byId('flush').addEventListener('click', () => stage.loseData());
byId('settings').addEventListener('submit', (event) => event.preventDefault());

const theme = byId('theme');
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
for (const name of NAMES) byId(name).addEventListener('load', paint);
paint();

stage.addEventListener('change', scheduleShow);
stage.addEventListener('log', ({ detail }) => showLogLine(detail));
stage.addEventListener('reset', () => {
  const { kind, leaseMs, renew } = stage.settings;
  byId('kind').value = kind;
  byId('lease').value = leaseMs;
  byId('renew').checked = renew;
  byId('kind-note').textContent = NOTES[kind];
  byId('log').replaceChildren();
});
setInterval(scheduleShow, SHOW_EVERY_MS);
setInterval(showSpans, SPANS_EVERY_MS);
byId('spans').addEventListener('toggle', showSpans);

// Tests and the browser's console use this.
window.playground = { stage, tour };
await stage.reset({});

// The frame of one client, with its worker, its state and its buttons. The page sends commands to it.

import { now, SHAPES } from './names.js';

const name = location.hash.slice(1);
const shown = (id) => document.getElementById(id);
const tell = (message) => parent.postMessage({ name, ...message }, location.origin);

let worker;
let state;

const DOES = {
  // The page and its frames load in any order, so each side announces itself and answers the other.
  hello: () => tell({ what: 'loaded' }),
  start({ message, run }) {
    worker?.terminate();
    worker = new Worker('worker.js', { type: 'module', name });
    // Messages of a terminated worker may arrive later. `run` shows to which worker a message belongs.
    worker.onmessage = ({ data }) => tell({ ...data, run });
    worker.onerror = ({ message: text }) => tell({ what: 'broke', text, run });
    worker.postMessage(message);
  },
  kill() {
    worker?.terminate();
    worker = undefined;
  },
  tell({ message }) {
    worker?.postMessage(message);
  },
  show(given) {
    state = given;
    show();
  },
};

addEventListener('message', ({ data, origin, source }) => {
  if (origin === location.origin && source === parent) DOES[data.do]?.(data);
});

/** The client's belief in words, for each phase. */
const BELIEVES = {
  off: 'starts …',
  dead: 'killed',
  idle: 'idle',
  waits: 'waits',
  holds: 'holds the lock',
  lost: 'lost its lease',
};

/** The text and the action of the first button, for the phases in which it does not ask for the lock. */
const ASKS = { waits: ['Give up', 'giveUp'], holds: ['Release', 'finish'] };

function show() {
  const { phase, until, since, reason, token, isPaused, isCut, isLocked } = state;
  const left = Math.max(0, until - now()) / 1_000;
  shown('believes').textContent = isPaused ? 'stands still' : BELIEVES[phase];
  shown('detail').textContent =
    {
      holds: isPaused ? `its last look: valid` : `${token}, ${left.toFixed(1)} s left`,
      waits: `for ${((now() - since) / 1_000).toFixed(1)} s`,
      lost: reason,
      dead: 'its record stays until its lease ends',
    }[phase] ?? (isCut ? 'no line to the server' : '\u00a0');
  document.body.classList.toggle('cut', isCut);
  document.body.dataset.phase = isPaused ? 'paused' : phase;
  const isAlive = phase !== 'dead' && phase !== 'off';
  button('ask', (ASKS[phase] ?? ['Ask'])[0], isAlive && !isPaused && !isLocked);
  button('pause', isPaused ? 'Go on' : 'Pause', isAlive && !isLocked);
  button('cut', isCut ? 'Connect' : 'Cut off', isAlive && !isLocked);
  button('kill', phase === 'dead' ? 'Start' : 'Kill', phase !== 'off' && !isLocked);
}

function button(id, text, isEnabled) {
  const it = shown(id);
  if (it.textContent !== text) it.textContent = text;
  // A `disabled` button would lose the focus.
  it.setAttribute('aria-disabled', String(!isEnabled));
}

for (const id of ['ask', 'pause', 'cut', 'kill']) {
  shown(id).addEventListener('click', ({ currentTarget }) => {
    if (currentTarget.getAttribute('aria-disabled') === 'true') return;
    const does = id === 'ask' ? (ASKS[state.phase]?.[1] ?? 'ask') : id;
    tell({ what: 'pressed', does });
  });
}

document.title = `Client ${name}`;
document.querySelector('main').ariaLabel = `Client ${name}`;
document.body.dataset.name = name;
shown('name').textContent = name;
shown('shape').textContent = SHAPES[name];
setInterval(() => {
  if (state?.phase === 'holds' || state?.phase === 'waits') show();
}, 200);
tell({ what: 'loaded' });

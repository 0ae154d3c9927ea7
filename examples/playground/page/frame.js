// The frame of one client, with its worker, its state and its buttons. The page sends commands to it.

import { now, SHAPES } from './names.js';

const name = location.hash.slice(1);
const byId = (id) => document.getElementById(id);
const send = (message) => parent.postMessage({ name, ...message }, location.origin);

let worker;
let state;

const HANDLERS = {
  // The page and its frames load in any order, so each side announces itself and answers the other.
  hello: () => send({ what: 'loaded' }),
  start({ message, run }) {
    worker?.terminate();
    worker = new Worker('worker.js', { type: 'module', name });
    // Messages of a terminated worker may arrive later. `run` shows to which worker a message belongs.
    worker.onmessage = ({ data }) => send({ ...data, run });
    worker.onerror = ({ message: text }) => send({ what: 'crashed', text, run });
    worker.postMessage(message);
  },
  kill() {
    worker?.terminate();
    worker = undefined;
  },
  forward({ message }) {
    worker?.postMessage(message);
  },
  show(newState) {
    state = newState;
    show();
  },
};

addEventListener('message', ({ data, origin, source }) => {
  if (origin === location.origin && source === parent) HANDLERS[data.do]?.(data);
});

/** The client's belief in words, for each phase. */
const PHASES = {
  off: 'starts …',
  dead: 'killed',
  idle: 'idle',
  waits: 'waits',
  holds: 'holds the lock',
  lost: 'lost its lease',
};

/** The text and the action of the first button, for the phases in which it does not acquire the lock. */
const FIRST_BUTTON = { waits: ['Cancel', 'cancel'], holds: ['Release', 'finish'] };

function show() {
  const { phase, until, since, reason, token, isPaused, isCut, isLocked } = state;
  const left = Math.max(0, until - now()) / 1_000;
  byId('believes').textContent = isPaused ? 'paused' : PHASES[phase];
  byId('detail').textContent =
    {
      holds: isPaused ? `its last check: valid` : `${token}, ${left.toFixed(1)} s left`,
      waits: `for ${((now() - since) / 1_000).toFixed(1)} s`,
      lost: reason,
      dead: 'its record stays until its lease ends',
    }[phase] ?? (isCut ? 'no connection to the server' : '\u00a0');
  document.body.classList.toggle('cut', isCut);
  document.body.dataset.phase = isPaused ? 'paused' : phase;
  const isAlive = phase !== 'dead' && phase !== 'off';
  button('acquire', (FIRST_BUTTON[phase] ?? ['Acquire'])[0], isAlive && !isPaused && !isLocked);
  button('pause', isPaused ? 'Resume' : 'Pause', isAlive && !isLocked);
  button('cut', isCut ? 'Connect' : 'Cut off', isAlive && !isLocked);
  button('kill', phase === 'dead' ? 'Start' : 'Kill', phase !== 'off' && !isLocked);
}

function button(id, text, isEnabled) {
  const it = byId(id);
  if (it.textContent !== text) it.textContent = text;
  // A `disabled` button would lose the focus.
  it.setAttribute('aria-disabled', String(!isEnabled));
}

for (const id of ['acquire', 'pause', 'cut', 'kill']) {
  byId(id).addEventListener('click', ({ currentTarget }) => {
    if (currentTarget.getAttribute('aria-disabled') === 'true') return;
    const action = id === 'acquire' ? (FIRST_BUTTON[state.phase]?.[1] ?? 'acquire') : id;
    send({ what: 'pressed', action });
  });
}

document.title = `Client ${name}`;
document.querySelector('main').ariaLabel = `Client ${name}`;
document.body.dataset.name = name;
byId('name').textContent = name;
byId('shape').textContent = SHAPES[name];
setInterval(() => {
  if (state?.phase === 'holds' || state?.phase === 'waits') show();
}, 200);
send({ what: 'loaded' });

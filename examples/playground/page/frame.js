// The frame of one client: its worker, what it says of itself, and its buttons. The page tells it what to do.

import { now, SHAPES } from './names.js';

const name = location.hash.slice(1);
const shown = (id) => document.getElementById(id);
const tell = (message) => parent.postMessage({ name, ...message }, location.origin);

let worker;
let state;

const DOES = {
  // The page and its frames load in any order: whoever is first is answered by the other.
  hello: () => tell({ what: 'loaded' }),
  start({ message, run }) {
    worker?.terminate();
    worker = new Worker('worker.js', { type: 'module', name });
    // What it said before it was terminated may come later: `run` tells.
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

/** What a client believes, in words. */
const BELIEVES = {
  off: 'starts …',
  dead: 'killed',
  idle: 'idle',
  waits: 'waits',
  holds: 'holds the lock',
  lost: 'lost its lease',
};

/** What the first button does. */
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
  // Not `disabled`: a button that has the focus is to keep it.
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

// One client: a program with the real lock library. It runs in a Web Worker, so that it can be paused and killed like a
// process.
//
//   asks ─► waits ─► holds: reads the stores, works, looks at its lease once more, writes ─► releases
//                      │
//                      └─ its lease is lost: it stops, and writes nothing
//
// A program can always be paused between its last look at the lease and the write. `pause` pauses a holder there.

import { Line } from './line.js';
import { standStill } from './pause.js';
import { upstash } from './steadlock/adapters/upstash.js';
import { connect, useCore } from './steadlock/index.js';

/** The interval at which a holder reports the deadline of its lease. */
const BEAT_MS = 100;

const now = () => performance.timeOrigin + performance.now();
const say = (what, details) => postMessage({ what, at: now(), ...details });
const after = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let settings;
let take;
/** The current turn. `finish()` ends its work, and `giveUp()` its wait. */
let turn;
/** The pause that is due between the last look and the write, if there is one. */
let pauseDue;
let isRepeating = false;

const line = new Line({
  called: (isAnswered) => say('called', { isAnswered }),
  listen: (id, channel) => say('listens', { id, channel }),
  unlisten: (id) => say('unlistens', { id }),
});

const answers = new Map();

/** Sends a request to the stores, which are in the page. */
function ask(what, details) {
  const id = crypto.randomUUID();
  say(what, { id, ...details });
  return new Promise((resolve) => answers.set(id, resolve));
}

const HEARD = {
  async start(given) {
    settings = given.settings;
    useCore(given.core);
    line.isCut = given.isCut;
    const redis = upstash({ url: location.origin, subscribe: true, fetch: (...request) => line.send(...request) });
    const client = await connect(redis, {
      keyPrefix: settings.prefix,
      leaseMs: settings.leaseMs,
      renew: settings.renew,
      commandTimeoutMs: 1_000,
      // The page shows the name for the owner id in a record.
      clientInfo: true,
      clientLabel: settings.name,
      // The client can be started while it is cut off.
      lazy: true,
    });
    take = taking(client, settings);
    say('ready');
  },
  ask: (wanted) => void takeTurns(wanted),
  finish: () => turn?.finish(),
  giveUp: () => turn?.giveUp(),
  repeat({ isOn }) {
    isRepeating = isOn;
    if (isOn && !turn) void repeat();
  },
  pause({ pause }) {
    if (turn?.isWorking) {
      pauseDue = pause;
      turn.finish();
    } else {
      standAside(pause);
    }
  },
  cut({ isCut }) {
    line.isCut = isCut;
  },
  heard: ({ id, text }) => line.heard(id, text),
  answer({ id, answer }) {
    answers.get(id)?.(answer);
    answers.delete(id);
  },
};

self.onmessage = ({ data }) => HEARD[data.do](data);

/** Returns a function that acquires the lock of this kind. */
function taking(client, { kind, lock, role }) {
  switch (kind) {
    case 'mutex':
      return (options) => client.mutex(lock).lock(options);
    case 'fair':
      return (options) => client.fairLock(lock).lock(options);
    case 'readWrite':
      return (options) => client.readWriteLock(lock)[role].lock(options);
    case 'semaphore':
      return (options) => client.semaphore(lock, 2).acquire(1, options);
    case 'multi':
      return (options) => client.multiLock([client.lock(`${lock}/a`), client.lock(`${lock}/b`)]).lock(options);
    default:
      return (options) => client.lock(lock).lock(options);
  }
}

/** Takes a number of turns, one after another. With `isTold` the first one lasts until `finish`. */
async function takeTurns({ turns = 1, workMs, isTold }) {
  if (turn) return;
  for (let i = 0; i < turns; i++) await takeTurn({ workMs: i === 0 && isTold ? undefined : workMs });
}

async function repeat() {
  while (isRepeating) {
    await takeTurn({ workMs: settings.pace * (400 + 800 * Math.random()) });
    await after(settings.pace * (200 + 500 * Math.random()));
  }
}

/** Takes one turn, from the attempt to the release. With `only`, it writes only to that store. */
async function takeTurn({ workMs, only }) {
  const ending = new AbortController();
  const work = Promise.withResolvers();
  const own = { isWorking: false, finish: work.resolve, giveUp: () => ending.abort(new Error('gave up')) };
  turn = own;
  let isRefused = false;
  try {
    say('asks');
    const lease = await take({ signal: ending.signal });
    own.isWorking = true;
    isRefused = await hold(lease, work, workMs, only);
  } catch (error) {
    say('failed', { kind: error.kind ?? error.message });
  } finally {
    turn = undefined;
  }
  // After a refused write, the client must acquire the lock, read and write again.
  if (isRefused) await takeTurn({ workMs: workMs ?? 400, only: 'fenced' });
}

/** Works under the lease. Returns whether the fenced store refused the write. */
async function hold(lease, work, workMs, only) {
  const until = () => now() + lease.remainingMs;
  say('holds', { token: lease.token, until: until() });
  const beat = setInterval(() => {
    if (lease.isValid) say('beats', { until: until() });
  }, BEAT_MS);
  lease.signal.addEventListener('abort', () => {
    say('lost', { reason: lease.lostReason });
    work.resolve();
  });
  try {
    // Only holders with a token write: without a token, the store could check nothing.
    const seen = lease.token === null ? undefined : await ask('reads');
    if (workMs !== undefined) setTimeout(work.resolve, workMs);
    await work.promise;
    turn.isWorking = false;
    const isValid = lease.isValid;
    // This was the last look at the lease. Everything after it can be too late.
    if (pauseDue) standAside(pauseDue);
    if (!isValid) return false;
    return seen !== undefined && (await write(lease.token, seen, only)).fenced === 'refused';
  } finally {
    clearInterval(beat);
    say('releases');
    say('released', { outcome: await lease.release() });
  }
}

function write(token, seen, only) {
  const { adds } = settings;
  const values = { fenced: seen.fenced + adds, unfenced: only === undefined ? seen.unfenced + adds : undefined };
  return ask('writes', { token, adds, values });
}

function standAside(pause) {
  pauseDue = undefined;
  say('stands');
  standStill(pause);
  say('wakes');
}

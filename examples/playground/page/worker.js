// One client: a program with the real lock library. It runs in a Web Worker, so that it can be paused and killed like a
// process.
//
//   waits ─► holds: reads the stores, works, checks its lease once more, writes ─► releases
//             │
//             └─ its lease is lost: it stops, and writes nothing
//
// A program can always be paused between its last check of the lease and the write. `pause` pauses a holder there.

import { Connection } from './connection.js';
import { blockUntilResumed } from './pause.js';
import { upstash } from './steadlock/adapters/upstash.js';
import { connect, useCore } from './steadlock/index.js';

/** The interval at which a holder reports the deadline of its lease. */
const REPORT_INTERVAL_MS = 100;

const now = () => performance.timeOrigin + performance.now();
const report = (what, details) => postMessage({ what, at: now(), ...details });
const delay = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

let settings;
let acquire;
/** The current turn. `finish()` ends its work, and `cancel()` its wait. */
let turn;
/** The pause that is due between the last check and the write, if there is one. */
let pauseDue;
let isRepeating = false;

const connection = new Connection({
  onCall: (isAnswered) => report('called', { isAnswered }),
  subscribe: (id, channel) => report('subscribe', { id, channel }),
  unsubscribe: (id) => report('unsubscribe', { id }),
});

const answers = new Map();

/** Sends a request to the stores, which are in the page. */
function request(what, details) {
  const id = crypto.randomUUID();
  report(what, { id, ...details });
  return new Promise((resolve) => answers.set(id, resolve));
}

const HANDLERS = {
  async start(message) {
    settings = message.settings;
    useCore(message.core);
    connection.isCut = message.isCut;
    const redis = upstash({ url: location.origin, subscribe: true, fetch: (...args) => connection.send(...args) });
    const client = await connect(redis, {
      keyPrefix: settings.prefix,
      leaseMs: settings.leaseMs,
      renew: settings.renew,
      commandTimeoutMs: 1_000,
      // The page shows this name in place of the owner id in a record.
      clientInfo: true,
      clientLabel: settings.name,
      // A client can be started while it is cut off, so it connects at its first call.
      lazy: true,
    });
    acquire = acquirer(client, settings);
    report('ready');
  },
  acquire: (options) => void takeTurns(options),
  finish: () => turn?.finish(),
  cancel: () => turn?.cancel(),
  repeat({ isOn }) {
    isRepeating = isOn;
    if (isOn && !turn) void repeat();
  },
  pause({ pause }) {
    if (turn?.isWorking) {
      pauseDue = pause;
      turn.finish();
    } else {
      pauseHere(pause);
    }
  },
  cut({ isCut }) {
    connection.isCut = isCut;
  },
  message: ({ id, text }) => connection.deliver(id, text),
  answer({ id, answer }) {
    answers.get(id)?.(answer);
    answers.delete(id);
  },
};

self.onmessage = ({ data }) => HANDLERS[data.do](data);

/** Returns a function that acquires the lock of this kind. */
function acquirer(client, { kind, lock, role }) {
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

/** Takes a number of turns, one after another. With `untilFinished` the first one lasts until `finish`. */
async function takeTurns({ turns = 1, workMs, untilFinished }) {
  if (turn) return;
  for (let i = 0; i < turns; i++) await takeTurn({ workMs: i === 0 && untilFinished ? undefined : workMs });
}

async function repeat() {
  while (isRepeating) {
    await takeTurn({ workMs: settings.pace * (400 + 800 * Math.random()) });
    await delay(settings.pace * (200 + 500 * Math.random()));
  }
}

/** Takes one turn, from the attempt to the release. With `onlyStore`, it writes to that store only. */
async function takeTurn({ workMs, onlyStore }) {
  const controller = new AbortController();
  const work = Promise.withResolvers();
  const own = { isWorking: false, finish: work.resolve, cancel: () => controller.abort(new Error('cancelled')) };
  turn = own;
  let isRefused = false;
  try {
    report('waits');
    const lease = await acquire({ signal: controller.signal });
    own.isWorking = true;
    isRefused = await hold(lease, work, workMs, onlyStore);
  } catch (error) {
    report('failed', { kind: error.kind ?? error.message });
  } finally {
    turn = undefined;
  }
  // After a refused write, the client must acquire the lock, read and write again.
  if (isRefused) await takeTurn({ workMs: workMs ?? 400, onlyStore: 'fenced' });
}

/** Works under the lease. Returns whether the fenced store refused the write. */
async function hold(lease, work, workMs, onlyStore) {
  const until = () => now() + lease.remainingMs;
  report('holds', { token: lease.token, until: until() });
  const timer = setInterval(() => {
    if (lease.isValid) report('renewed', { until: until() });
  }, REPORT_INTERVAL_MS);
  lease.signal.addEventListener('abort', () => {
    report('lost', { reason: lease.lostReason });
    work.resolve();
  });
  try {
    // Only holders with a token write: without a token, the store could check nothing.
    const balances = lease.token === null ? undefined : await request('reads');
    if (workMs !== undefined) setTimeout(work.resolve, workMs);
    await work.promise;
    turn.isWorking = false;
    const isValid = lease.isValid;
    // This was the last check of the lease. Everything after it can be too late.
    if (pauseDue) pauseHere(pauseDue);
    if (!isValid) return false;
    return balances !== undefined && (await write(lease.token, balances, onlyStore)).fenced === 'refused';
  } finally {
    clearInterval(timer);
    report('releases');
    report('released', { outcome: await lease.release() });
  }
}

function write(token, balances, onlyStore) {
  const { amount } = settings;
  const values = {
    fenced: balances.fenced + amount,
    unfenced: onlyStore === undefined ? balances.unfenced + amount : undefined,
  };
  return request('writes', { token, amount, values });
}

function pauseHere(pause) {
  pauseDue = undefined;
  report('paused');
  blockUntilResumed(pause);
  report('resumed');
}

// The common part of the contenders in JavaScript.

import { once } from 'node:events';
import { createRequire } from 'node:module';
import { createInterface } from 'node:readline';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

// The packages of the seckill service.
const require = createRequire(new URL('../../../examples/seckill/node/', import.meta.url));
export const Redis = require('ioredis');

const number = (preset) => ({ type: 'string', default: String(preset) });
const { positionals, values } = parseArgs({
  allowPositionals: true,
  options: {
    kind: { type: 'string', default: 'lock' },
    workers: number(1),
    rounds: number(1e9),
    seconds: number(1e6),
    'hold-ms': number(0),
    'lease-ms': { type: 'string' },
    permits: number(1),
    limit: number(1),
    log: number(0),
    'warm-up': number(0),
    http: { type: 'string' },
    listen: number(1),
  },
});
const [command, url, name] = positionals;

/** The URL and the options of the command line. */
export { url, values };

const [workers, rounds, seconds] = [values.workers, values.rounds, values.seconds].map(Number);
const lines = createInterface({ input: process.stdin });

let connect;
const open = () => connect(values['lease-ms'] ? { leaseMs: Number(values['lease-ms']) } : {});
const nextLine = () => once(lines, 'line');

/** Prints `ready`, waits for a line, and runs `work` for all workers concurrently. */
async function run(work) {
  console.log('ready');
  await nextLine();
  await Promise.all(Array.from({ length: workers }, (_, worker) => work(worker)));
}

/** Returns a function that acquires the lock, however long that takes. */
function acquirer(client) {
  if (values.kind === 'semaphore') {
    const semaphore = client.semaphore(name, Number(values.limit));
    return () => semaphore.acquire(Number(values.permits));
  }
  const makers = {
    lock: () => client.lock(name),
    mutex: () => client.mutex(name),
    fair: () => client.fairLock(name),
    read: () => client.readWriteLock(name).read,
    write: () => client.readWriteLock(name).write,
    multi: () => client.multiLock(name.split(',').map((member) => client.lock(member))),
  };
  const lock = makers[values.kind]();
  return () => lock.lock();
}

async function count() {
  const store = new Redis(url);
  const client = await open();
  const acquire = acquirer(client);
  await run(async () => {
    for (let round = 0; round < rounds; round += 1) {
      const lease = await acquire();
      const value = Number(await store.get(`${name}:count`));
      await sleep(1);
      await store.set(`${name}:count`, value + 1);
      await store.rpush(`${name}:tokens`, String(lease.token));
      await lease.release();
    }
  });
  await client.close();
  store.disconnect();
}

async function turns() {
  const store = new Redis(url);
  const client = await open();
  const acquire = acquirer(client);
  const grants = Array(workers).fill(0);
  let heldMs = 0;
  const logStep = async (step, id, remainingMs) => {
    if (values.log === '0') return;
    await store.xadd(`${name}:log`, '*', 'step', step, 'id', id, 'until', Math.floor(Date.now() + remainingMs));
  };
  const own = client.fairLock(`${name}:${process.pid}`);
  for (let round = 0; round < Number(values['warm-up']); round += 1) {
    await (await own.lock()).release();
  }
  await run(async (worker) => {
    const until = performance.now() + seconds * 1000;
    while (grants[worker] < rounds && performance.now() < until) {
      const lease = await acquire();
      const granted = performance.now();
      const id = `${process.pid}/${worker}/${grants[worker]}`;
      await logStep('enter', id, lease.remainingMs);
      await sleep(Number(values['hold-ms']));
      await logStep('exit', id, 0);
      heldMs += performance.now() - granted;
      await lease.release();
      grants[worker] += 1;
    }
  });
  await client.close();
  store.disconnect();
  console.log(Math.floor(heldMs), ...grants);
}

async function hold() {
  const client = await open();
  const acquire = acquirer(client);
  const leases = await Promise.all(Array.from({ length: workers }, acquire));
  console.log('held');
  await nextLine();
  for (const lease of leases) await lease.release();
  console.log('released');
  await client.close();
}

async function downgrade() {
  const client = await open();
  const lock = client.readWriteLock(name);
  const writing = await lock.write.lock();
  console.log('held');
  await nextLine();
  const reading = await lock.read.lock({ within: writing });
  await writing.release();
  console.log('reading');
  await nextLine();
  await reading.release();
  console.log('released');
  await client.close();
}

/** Holds the lock until the lease is lost, and prints the reason. */
async function watch() {
  const client = await open();
  const lease = await acquirer(client)();
  console.log('held');
  if (!lease.signal.aborted) await once(lease.signal, 'abort');
  console.log(lease.lostReason);
  await client.close();
}

/** Waits for the lock, and cancels the wait at the next line. */
async function cancel() {
  const client = await open();
  const controller = new AbortController();
  const waiting = client.lock(name).lock({ signal: controller.signal });
  console.log('waiting');
  await nextLine();
  controller.abort('cancelled');
  console.log(await waiting.catch((reason) => reason));
  await client.close();
}

/** Runs the command of the command line, with clients that `open` makes from options. */
export async function contend(open) {
  connect = open;
  await { count, turns, hold, downgrade, watch, cancel }[command]();
  lines.close();
}

// Runs the libraries of Node: `peer.mjs LIBRARY URL`, with the line protocol of ../README.md.

import { createInterface } from 'node:readline';
import Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';
import Redlock, { ExecutionError } from 'redlock';
import { connect, LockTimeoutError } from 'steadlock';

const WAIT_MS = 60_000;
const RETRY_MS = 20;
const OWN_LEASE_MS = 10_000;

/** node-redlock. The library has no default lease. */
function redlock(url) {
  const locks = new Redlock([new Redis(url)], { retryDelay: RETRY_MS, retryJitter: 5 });
  return {
    async acquire(name, leaseMs, waitMs) {
      const retryCount = waitMs / RETRY_MS;
      try {
        return { held: await locks.acquire([name], leaseMs || OWN_LEASE_MS, { retryCount }) };
      } catch (error) {
        if (error instanceof ExecutionError) return { refused: error.message };
        throw error;
      }
    },
    async release(lock) {
      try {
        await locks.release(lock, { retryCount: 0 });
      } catch (error) {
        if (error instanceof ExecutionError) return error.message;
        throw error;
      }
    },
  };
}

/** redlock-universal on one server. */
async function universal(url) {
  const { createLock, IoredisAdapter, LockAcquisitionError } = await import('redlock-universal');
  const adapter = new IoredisAdapter(new Redis(url));
  return {
    async acquire(name, leaseMs, waitMs) {
      const retryAttempts = waitMs / RETRY_MS;
      const ttl = leaseMs || OWN_LEASE_MS;
      const lock = createLock({ adapter, key: name, ttl, retryAttempts, retryDelay: RETRY_MS });
      try {
        const handle = await lock.acquire();
        return { held: { lock, handle } };
      } catch (error) {
        if (error instanceof LockAcquisitionError) return { refused: error.message };
        throw error;
      }
    },
    async release({ lock, handle }) {
      return (await lock.release(handle)) ? undefined : 'the record is not its own';
    },
  };
}

/** `Mutex` of redis-semaphore. By default the lease is renewed; a lease that a test gives is not. */
function semaphore(url) {
  const store = new Redis(url);
  return {
    async acquire(name, leaseMs, waitMs) {
      const options = leaseMs ? { lockTimeout: leaseMs, refreshInterval: 0 } : {};
      const limit = waitMs ? {} : { acquireAttemptsLimit: 1 };
      const retry = { acquireTimeout: waitMs || 1000, retryInterval: RETRY_MS, ...limit };
      const mutex = new Mutex(store, name, { ...options, ...retry });
      return (await mutex.tryAcquire()) ? { held: mutex } : { refused: '' };
    },
    // The library does not report whether the record was its own.
    release: (mutex) => mutex.release(),
  };
}

/** A lock or a mutex of Steadlock. */
async function ours(kind, url) {
  const client = await connect(url);
  return {
    async acquire(name, leaseMs, waitMs) {
      const options = leaseMs ? { waitMs, leaseMs } : { waitMs };
      try {
        return { held: await client[kind](name).lock(options) };
      } catch (error) {
        if (error instanceof LockTimeoutError) return { refused: error.message };
        throw error;
      }
    },
    async release(lease) {
      const outcome = await lease.release();
      return outcome === 'released' ? undefined : outcome;
    },
  };
}

const LIBRARIES = {
  redlock,
  'redlock-universal': universal,
  'redis-semaphore': semaphore,
  'steadlock-mutex': (url) => ours('mutex', url),
  'steadlock-lock': (url) => ours('lock', url),
};

const [library, url] = process.argv.slice(2);
const { acquire, release } = await LIBRARIES[library](url);
const held = new Map();

async function answer([command, name, leaseMs]) {
  if (command === 'unlock') {
    const lock = held.get(name);
    held.delete(name);
    const gone = await release(lock);
    return gone === undefined ? 'released' : `gone ${gone}`;
  }
  const result = await acquire(name, Number(leaseMs), command === 'lock' ? WAIT_MS : 0);
  if (result.held === undefined) return `refused ${result.refused}`;
  held.set(name, result.held);
  return 'held';
}

console.log('ready');
for await (const line of createInterface({ input: process.stdin })) {
  const reply = await answer(line.split(' ')).catch((error) => `error ${error.name}: ${error.message}`);
  console.log(reply.replaceAll('\n', ' '));
}
process.exit();

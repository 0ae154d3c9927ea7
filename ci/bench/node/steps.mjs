// Runs single steps of a redis-semaphore lock: `steps.mjs mutex|semaphore URL NAME`. See ../scripts/libraries.py.

import { createInterface } from 'node:readline';
import Redis from 'ioredis';
import { Mutex, Semaphore } from 'redis-semaphore';

const OPTIONS = { lockTimeout: 30_000, acquireAttemptsLimit: 1, retryInterval: 1, refreshInterval: 0 };

const [kind, url, name] = process.argv.slice(2);
const redis = new Redis(url);
const create = () => (kind === 'mutex' ? new Mutex(redis, name, OPTIONS) : new Semaphore(redis, name, 1, OPTIONS));
const [first, second] = [create(), create()];

const steps = {
  acquire: () => first.tryAcquire(),
  // The library's timer calls the same method.
  renew: () => first._processRefresh(),
  refused: () => second.tryAcquire(),
  release: () => first.release(),
};

console.log('ready');
for await (const line of createInterface({ input: process.stdin })) {
  await steps[line]();
  console.log('done');
}
process.exit(0);

// The contender for Node: `tasks.mjs "steadlock"|"steadlock, metrics"|"redis-semaphore" URL TASKS`.

import { createInterface } from 'node:readline';
import Redis from 'ioredis';
import { Mutex } from 'redis-semaphore';
import { connect } from 'steadlock';

async function ours(url, tasks, options) {
  const client = await connect(url, options);
  return Array.from({ length: tasks }, (_, task) => {
    const lock = client.lock(`ours-node:${task}`);
    return async () => {
      const lease = await lock.lock();
      await lease.release();
    };
  });
}

/** Each library returns one function for each task, which acquires and releases a lock of its own. */
const libraries = {
  steadlock: (url, tasks) => ours(url, tasks, {}),
  'steadlock, metrics': (url, tasks) => ours(url, tasks, { metrics: true }),
  async 'redis-semaphore'(url, tasks) {
    const redis = new Redis(url);
    return Array.from({ length: tasks }, (_, task) => {
      const mutex = new Mutex(redis, `theirs-node-${task}`, { lockTimeout: 30_000 });
      return async () => {
        await mutex.acquire();
        await mutex.release();
      };
    });
  },
};

async function measure(pairs, seconds) {
  let done = 0;
  const started = performance.now();
  const until = started + seconds * 1000;
  await Promise.all(
    pairs.map(async (pair) => {
      while (performance.now() < until) {
        await pair();
        done += 1;
      }
    }),
  );
  return [done, (performance.now() - started) / 1000];
}

const [library, url, tasks] = process.argv.slice(2);
const pairs = await libraries[library](url, Number(tasks));
console.log('ready');
for await (const line of createInterface({ input: process.stdin })) {
  console.log(...(await measure(pairs, Number(line))));
}
process.exit(0);

// The contender in Node.

import { once } from 'node:events';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

// The packages of the seckill service.
const require = createRequire(new URL('../../../examples/seckill/node/', import.meta.url));
const Redis = require('ioredis');
const { connect } = require('leasehold');

/** Says `ready`, waits for the word, and runs `work` that many times at once. */
async function run(workers, work) {
  console.log('ready');
  await once(process.stdin, 'data');
  process.stdin.destroy();
  await Promise.all(Array.from({ length: workers }, work));
}

async function count(url, name, workers, rounds) {
  const store = new Redis(url);
  const client = await connect(url);
  await run(workers, async () => {
    for (let round = 0; round < rounds; round += 1) {
      await client.using(name, {}, async (lease) => {
        const value = Number(await store.get(`${name}:count`));
        await sleep(1);
        await store.set(`${name}:count`, value + 1);
        await store.rpush(`${name}:tokens`, String(lease.token));
      });
    }
  });
  await client.close();
  store.disconnect();
}

async function turns(url, name, workers, seconds) {
  let grants = 0;
  const client = await connect(url);
  const lock = client.lock(name);
  await run(workers, async () => {
    const until = performance.now() + seconds * 1000;
    while (performance.now() < until) {
      const lease = await lock.lock();
      grants += 1;
      await lease.release();
    }
  });
  await client.close();
  console.log(grants);
}

async function hold(url, name, leaseMs) {
  const client = await connect(url, { leaseMs });
  await client.lock(name).lock();
  console.log('held');
  setInterval(() => {}, 1000);
}

const [command, url, name, ...numbers] = process.argv.slice(2);
await { count, turns, hold }[command](url, name, ...numbers.map(Number));

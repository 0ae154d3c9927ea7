// The Node service: sells vouchers, one per user, from a stock that services in other languages sell too.

import { once } from 'node:events';
import { createServer } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import Redis from 'ioredis';
import { connect } from 'steadlock';

const URL = process.env.REDIS_URL;
const PREFIX = process.env.SECKILL_PREFIX;
const USERS = Number(process.env.SECKILL_USERS);
const CLICKS_AT_A_TIME = 8;

const store = new Redis(URL);
const client = await connect(URL, { metrics: true });
// The mutex keeps a second Node service from selling. Its lease is renewed each second.
const shift = await client.mutex(`${PREFIX}:shift:node`, { leaseMs: 3000, renew: true }).lock();
const lock = client.lock(`${PREFIX}:voucher`);
const progress = { sold: 0, refused: 0, grants: 0, longestWaitMs: 0 };
let soldOut = false;

/** Serves one click after another until no voucher or no click is left. */
async function serve(clicks) {
  for (const user of clicks) {
    if (soldOut) return;
    const start = performance.now();
    const lease = await lock.lock();
    progress.grants += 1;
    progress.longestWaitMs = Math.max(progress.longestWaitMs, Math.round(performance.now() - start));
    try {
      await sell(user, lease.token);
    } finally {
      await lease.release();
    }
  }
}

/** Sells a voucher to one user. Each read and each write is a separate command: only the lock makes the sale atomic. */
async function sell(user, token) {
  const stock = Number(await store.get(`${PREFIX}:stock`));
  if (stock === 0) {
    soldOut = true;
    return;
  }
  if (await store.hexists(`${PREFIX}:orders`, user)) {
    progress.refused += 1;
    return;
  }
  // The fencing check: a holder that was paused for longer than its lease has a token that is too low.
  if (token <= Number(await store.get(`${PREFIX}:token`))) {
    throw new Error(`fencing token ${token} is too low`);
  }
  await sleep(1);
  const sale = `node-${progress.sold}`;
  const record = { user, language: 'node', token, left: stock - 1 };
  await store.hset(`${PREFIX}:sales`, sale, JSON.stringify(record));
  await store.hset(`${PREFIX}:orders`, user, sale);
  await store.set(`${PREFIX}:token`, token);
  await store.set(`${PREFIX}:stock`, stock - 1);
  progress.sold += 1;
}

function shuffled(list) {
  for (let last = list.length - 1; last > 0; last -= 1) {
    const other = Math.floor(Math.random() * (last + 1));
    [list[last], list[other]] = [list[other], list[last]];
  }
  return list;
}

const print = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

// Serves the metrics of the client to Prometheus.
const server = createServer((_request, response) => {
  response.setHeader('Content-Type', 'text/plain; version=0.0.4');
  response.end(client.metrics());
});
await once(server.listen(0, '127.0.0.1'), 'listening');
print({ ready: `http://127.0.0.1:${server.address().port}/metrics` });
await once(process.stdin, 'data');

const users = Array.from({ length: USERS }, (_, number) => `user-${number}`);
const clicks = shuffled([...users, ...users]).values();
const reporter = setInterval(() => print(progress), 200);
await Promise.all(Array.from({ length: CLICKS_AT_A_TIME }, () => serve(clicks)));
clearInterval(reporter);
print(progress);
print({ done: true });
await once(process.stdin, 'end');
await shift.release();
await client.close();
server.close();
store.disconnect();

// Tests of worker threads: each has a client of its own, and can end at any time.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { Worker } from 'node:worker_threads';
import { connect } from 'steadlock';
import { run } from './run.js';
import { eventually, RedisServer } from './server.js';

const HOLDS = `
  const { parentPort, workerData } = require('node:worker_threads');
  const { connect } = require('steadlock');
  (async () => {
    const client = await connect(workerData.url);
    const lease = await client.lock(workerData.name).lock();
    parentPort.postMessage(lease.token);
    if (workerData.stay) setInterval(() => {}, 1000);
  })();`;

describe('a worker thread', () => {
  let server: RedisServer;

  before(async () => {
    server = await RedisServer.start();
  });

  after(() => server[Symbol.asyncDispose]());

  it('releases its locks when it ends', async () => {
    const worker = new Worker(HOLDS, { eval: true, workerData: { url: server.url, name: 'ends', stay: false } });
    const ended = once(worker, 'exit');
    const [token] = await once(worker, 'message');
    assert.equal(typeof token, 'number');
    assert.deepEqual(await ended, [0]);
    assert.equal(await server.store.exists('ends'), 0);
  });

  it('releases its locks when it is terminated, and other threads keep working', async () => {
    await using client = await connect(server.url);
    const lease = await client.lock('main').lock();
    const worker = new Worker(HOLDS, { eval: true, workerData: { url: server.url, name: 'killed', stay: true } });
    await once(worker, 'message');
    assert.equal(await client.lock('killed').tryLock(), null);
    await worker.terminate();
    await eventually(20_000, async () => (await server.store.exists('killed')) === 0);
    assert.ok(lease.isValid);
    await lease.release();
  });

  it('excludes other threads: a thousand updates lose none', async () => {
    const contends = `
      const { workerData } = require('node:worker_threads');
      const { setTimeout: sleep } = require('node:timers/promises');
      const { connect } = require('steadlock');
      const shared = new Int32Array(workerData.shared);
      (async () => {
        const client = await connect(workerData.url);
        const lock = client.lock('contended');
        const contend = async () => {
          for (let round = 0; round < 125; round++) {
            const lease = await lock.lock();
            const seen = shared[0];
            await sleep(1);
            shared[0] = seen + 1;
            await lock.unlock(lease);
          }
        };
        await Promise.all([contend(), contend()]);
        await client.close();
      })();`;
    const shared = new SharedArrayBuffer(4);
    const workers = Array.from(
      { length: 4 },
      () => new Worker(contends, { eval: true, workerData: { url: server.url, shared } }),
    );
    const codes = await Promise.all(workers.map((worker) => once(worker, 'exit')));
    assert.deepEqual(codes, [[0], [0], [0], [0]]);
    assert.equal(new Int32Array(shared)[0], 1_000);
  });

  it('can be the only thread that loads the library, several times', async () => {
    const ended = await run(
      `import { once } from 'node:events';
      import { Worker } from 'node:worker_threads';
      const program = ${JSON.stringify(HOLDS)};
      for (let round = 0; round < 10; round++) {
        const stay = round % 2 === 0;
        const workerData = { url: process.env.STEADLOCK_URL, name: 'round-' + round, stay };
        const worker = new Worker(program, { eval: true, workerData, execArgv: [] });
        const ended = once(worker, 'exit');
        await once(worker, 'message');
        if (stay) await worker.terminate();
        await ended;
      }
      console.log('done');`,
      server.url,
    );
    assert.equal(ended.errors, '');
    assert.equal(ended.code, 0);
    assert.match(ended.output, /done/);
  });
});

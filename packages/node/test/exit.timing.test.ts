// Tests of the end of programs: they end by themselves and soon, and leave nothing on the server.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Ended, run } from './run.js';
import { eventually, RedisServer } from './server.js';

const LIMIT_MS = 500;

function assertCleanExit(ended: Ended): void {
  assert.equal(ended.errors, '');
  assert.equal(ended.code, 0);
  assert.ok(ended.lingeredMs <= LIMIT_MS, `it ended after ${ended.lingeredMs} ms`);
}

describe('a program', () => {
  let server: RedisServer;

  before(async () => {
    server = await RedisServer.start();
  });

  after(() => server[Symbol.asyncDispose]());

  it('exits by itself with an idle client', async () => {
    for (const url of [server.url, 'memory://']) {
      assertCleanExit(
        await run(
          `import { connect } from 'steadlock';
          const client = await connect();
          await (await client.lock('idle').lock()).release();
          console.log('done');`,
          url,
        ),
      );
    }
  });

  it('exits by itself while it holds a lock, and releases it', async () => {
    assertCleanExit(
      await run(
        `import { connect } from 'steadlock';
        const client = await connect();
        await client.lock('exit:{held}').lock();
        await (await connect()).lock('exit:{held}:too').lock();
        console.log('done');`,
        server.url,
      ),
    );
    assert.deepEqual(await server.store.keys('exit:*'), []);
  });

  it('releases its locks after process.exit and an uncaught error', async () => {
    const program = `import { connect } from 'steadlock';
      const client = await connect();
      await client.lock('exit:{last}').lock();
      console.log('done');`;
    const exited = await run(`${program} process.exit(3);`, server.url);
    assert.equal(exited.code, 3);
    assert.ok(exited.lingeredMs <= LIMIT_MS);
    const failed = await run(`${program} throw new Error('mine');`, server.url);
    assert.equal(failed.code, 1);
    assert.match(failed.errors, /mine/);
    assert.deepEqual(await server.store.keys('exit:*'), []);
  });

  it('leaves no record if it exits right after an abort', async () => {
    for (let round = 0; round < 10; round++) {
      await run(
        `import { connect } from 'steadlock';
        const client = await connect();
        const controller = new AbortController();
        client.lock('exit:{abort}').lock({ signal: controller.signal }).catch(() => process.exit());
        for (let turns = ${round}; turns > 0; turns--) await new Promise(setImmediate);
        controller.abort();`,
        server.url,
      );
      assert.deepEqual(await server.store.keys('exit:*'), []);
    }
  });

  it('is kept alive by a waiting caller until the reply', async () => {
    await server.store.hset('exit:{taken}', '00000000-0000-4000-8000-000000000002:1', '1');
    await server.store.pexpire('exit:{taken}', 300);
    const ended = await run(
      `import { connect } from 'steadlock';
      const lease = await (await connect()).lock('exit:{taken}').lock();
      console.log('done', await lease.release());`,
      server.url,
    );
    assertCleanExit(ended);
    assert.match(ended.output, /done released/);
  });

  it('has no unhandled rejection', async () => {
    const ended = await run(
      `import { connect } from 'steadlock';
      await connect('redis://127.0.0.1:1', { connectTimeoutMs: 200 }).catch(() => {});
      const client = await connect();
      const lease = await client.lock('exit:{r}').lock();
      const waiting = client.lock('exit:{r}').lock().catch((error) => error.name);
      await client.close();
      console.log(await waiting, lease.lostReason, lease.signal.aborted, lease.signal.reason.name);`,
      server.url,
    );
    assertCleanExit(ended);
    assert.match(ended.output, /^ClosedError closed true LockLostError$/m);
  });

  for (const [what, program] of [
    ['an idle client', ''],
    ['a held lock', `await client.lock('gone').lock();`],
  ] as const) {
    it(`ends soon with ${what} when its server hangs, and when its server is killed`, async () => {
      const text = `import { connect } from 'steadlock';
        const client = await connect();
        ${program}
        console.log('ready');
        await new Promise((resolve) => setTimeout(resolve, 300));
        console.log('done');`;
      for (const stop of [() => server.pause(), () => server.kill()]) {
        let stopped: unknown;
        assertCleanExit(
          await run(text, server.url, () => {
            stopped ??= stop();
          }),
        );
        await stopped;
        server.resume();
      }
      await server.restart();
      await eventually(5_000, () => server.store.ping());
    });
  }
});

// Tests of clients that connect at their first use.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { setImmediate as nextTurn } from 'node:timers/promises';
import { connect, InvalidArgumentError, MisconfiguredError, redlock, UnavailableError } from 'steadlock';
import { RedisServer, unusedPort } from './server.js';

it('is made before its server is up, and connects at its first use', async () => {
  await using server = await RedisServer.start();
  await server.kill();
  await using client = await connect(server.url, { lazy: true });
  const lock = client.lock('door');
  await assert.rejects(lock.tryLock(), UnavailableError);
  const waits = lock.lock({ waitMs: 30_000 });
  await server.restart();
  assert.equal(await (await waits).release(), 'released');
});

it('can have eight calls as its first use', async () => {
  await using server = await RedisServer.start();
  for (let turn = 0; turn < 5; turn += 1) {
    await using client = await connect(server.url, { lazy: true });
    const attempts = await Promise.all(Array.from({ length: 8 }, () => client.lock('door').tryLock()));
    const [lease, ...others] = attempts.filter((lease) => lease !== null);
    assert.deepEqual(others, []);
    assert.equal(await lease?.release(), 'released');
  }
  for (let turn = 0; turn < 5; turn += 1) {
    await using client = await connect(server.url, { lazy: true });
    let inside = 0;
    const enter = async () => {
      const lease = await client.lock('door').lock({ waitMs: 10_000 });
      inside += 1;
      await nextTurn();
      assert.equal(inside, 1);
      inside -= 1;
      assert.equal(await lease.release(), 'released');
    };
    await Promise.all(Array.from({ length: 8 }, enter));
  }
});

it('reports a permanent error at its first use', async () => {
  await using server = await RedisServer.start('--requirepass', 'right');
  await using client = await connect(server.url.replace('//', '//:wrong@'), { lazy: true });
  for (const attempt of [1, 2]) {
    await assert.rejects(client.lock('door').lock(), MisconfiguredError, `attempt ${attempt}`);
  }
});

it('does not connect until it is used', async () => {
  const nowhere = async () => `redis://127.0.0.1:${await unusedPort()}`;
  await using _one = await connect(await nowhere(), { lazy: true });
  await using _majority = await redlock([await nowhere(), await nowhere(), await nowhere()], { lazy: true });
});

it('needs a boolean for lazy', async () => {
  await assert.rejects(connect('memory://', { lazy: 1 as unknown as boolean }), InvalidArgumentError);
});

// Tests of two clients on one server, like two services.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { connect } from 'steadlock';
import { RedisServer } from './server.js';

describe('two clients', () => {
  it('lose no update of a counter', async () => {
    await using server = await RedisServer.start();
    await using first = await connect(server.url);
    await using second = await connect(server.url);
    const { store } = server;
    await store.set('counter', 0);
    const contend = async (client: typeof first) => {
      for (let round = 0; round < 50; round++) {
        await client.using('guard', async () => {
          const seen = Number(await store.get('counter'));
          if (round % 10 === 0) await sleep(1);
          await store.set('counter', seen + 1);
        });
      }
    };
    await Promise.all(Array.from({ length: 16 }, (_, n) => contend(n % 2 ? first : second)));
    assert.equal(await store.get('counter'), '800');
  });

  it('with different key prefixes have different locks, whose names have no prefix', async () => {
    await using server = await RedisServer.start();
    await using first = await connect(server.url, { keyPrefix: 'a:' });
    await using second = await connect(server.url, { keyPrefix: 'b:' });
    const lease = await first.lock('same').lock();
    assert.equal(lease.name, 'same');
    const other = await second.lock('same').tryLock();
    assert.ok(other);
    const refused = await first
      .lock('same')
      .lock({ waitMs: 0 })
      .catch((error) => error);
    assert.equal(refused.lockName, 'same');
    await other.release();
    await lease.release();
  });

  it('keep working after the server was restarted', async () => {
    await using server = await RedisServer.start();
    await using client = await connect(server.url);
    const before = await client.lock('restart').lock();
    await before.release();
    await server.kill();
    await server.restart();
    const after = await client.lock('restart').lock({ waitMs: 5_000 });
    assert.ok((after.token as number) > (before.token as number));
    await after.release();
  });
});

// Tests that the watchdog works on its own thread, not on the event loop.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, connect } from 'steadlock';
import { RedisServer } from './server.js';

describe('the watchdog', () => {
  let server: RedisServer;
  let client: Client;

  before(async () => {
    server = await RedisServer.start();
    client = await connect(server.url, { leaseMs: 1_000 });
  });

  after(async () => {
    await client.close();
    await server[Symbol.asyncDispose]();
  });

  it('renews a lock while the event loop is blocked for three leases', async () => {
    const lease = await client.lock('blocked').lock();
    const owner = await server.store.hkeys('blocked');
    const until = performance.now() + 3_000;
    while (performance.now() < until);
    assert.ok(lease.isValid);
    assert.equal(lease.lostReason, null);
    assert.deepEqual(await server.store.hkeys('blocked'), owner);
    assert.equal(lease.signal.aborted, false);
    assert.equal(await lease.release(), 'released');
  });

  it('renews a thousand locks for five leases', async () => {
    const leases = await Promise.all(Array.from({ length: 1_000 }, (_, n) => client.lock(`many-${n}`).lock()));
    const until = performance.now() + 5_000;
    while (performance.now() < until) {
      assert.ok(leases.every((lease) => lease.isValid));
      await sleep(100);
    }
    const outcomes = await Promise.all(leases.map((lease) => lease.release()));
    assert.deepEqual([...new Set(outcomes)], ['released']);
    assert.deepEqual(await server.store.keys('many-*'), []);
  });

  it('sends no renewal after a release', async () => {
    const lease = await client.lock('quiet').lock();
    await sleep(500);
    await lease.release();
    const monitor = await server.store.monitor();
    const seen: string[] = [];
    monitor.on('monitor', (_time: string, args: string[]) => seen.push(args.join(' ')));
    await sleep(2_000);
    monitor.disconnect();
    assert.deepEqual(
      seen.filter((command) => command.includes('quiet')),
      [],
    );
  });

  it('needs two script calls for lock and unlock, and none for a re-entry', async () => {
    const lock = client.lock('cost');
    const before = await server.scriptCalls();
    const lease = await lock.lock();
    const inner = await lock.lock({ within: lease });
    await inner.release();
    await lease.release();
    assert.equal((await server.scriptCalls()) - before, 2);
  });
});

// Tests of the loss of a lock: its holder learns of it in time, and a late release affects no other owner.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Client, connect, type Lease, LockLostError, type LostReason, UnavailableError } from 'steadlock';
import { elapsed, eventually, RedisServer } from './server.js';

const LEASE_MS = 1_500;
/** A third of the lease until the next renewal, and half a second for the report. */
const LIMIT_MS = LEASE_MS / 3 + 500;

describe('a lost lock', () => {
  let server: RedisServer;
  let client: Client;

  before(async () => {
    server = await RedisServer.start();
    client = await connect(server.url, { leaseMs: LEASE_MS });
  });

  after(async () => {
    server.resume();
    await client.close();
    await server[Symbol.asyncDispose]();
  });

  async function reportedWithin(limitMs: number, lease: Lease, reason: LostReason): Promise<void> {
    const { signal } = lease;
    await eventually(limitMs, () => signal.aborted);
    assert.ok(signal.reason instanceof LockLostError);
    assert.equal(signal.reason.reason, reason);
    assert.equal(signal.reason.lockName, lease.name);
    assert.equal(lease.lostReason, reason);
    assert.equal(lease.isValid, false);
    assert.equal(lease.remainingMs, 0);
  }

  it('by DEL is reported within a third of the lease', async () => {
    const lease = await client.lock('deleted').lock();
    await server.store.del('deleted');
    await reportedWithin(LIMIT_MS, lease, 'removed');
    assert.equal(await lease.release(), 'expired');
  });

  it('by FLUSHALL is reported, and the next token is higher', async () => {
    const lease = await client.lock('flushed').lock();
    await server.store.flushall();
    await reportedWithin(LIMIT_MS, lease, 'removed');
    await assert.rejects(client.lock('flushed').lock({ within: lease }), LockLostError);
    const next = await client.lock('flushed').lock();
    assert.ok((next.token as number) > (lease.token as number));
    assert.equal(await lease.release(), 'expired');
    assert.equal(await next.release(), 'released');
  });

  it("by another owner's record is reported, and the release does not touch that record", async () => {
    const lease = await client.lock('stolen').lock();
    await server.store.multi().del('stolen').hset('stolen', 'thief', '1').pexpire('stolen', 60_000).exec();
    await reportedWithin(LIMIT_MS, lease, 'stolen');
    assert.equal(await lease.release(), 'stolen');
    assert.equal(await server.store.hget('stolen', 'thief'), '1');
  });

  it('by an unresponsive server is reported before the record expires', async () => {
    const lease = await client.lock('silent').lock();
    const left = await server.store.pttl('silent');
    server.pause();
    await reportedWithin(left, lease, 'expired');
    server.resume();
    await eventually(2_000, async () => (await server.store.exists('silent')) === 0);
    assert.notEqual(await lease.release(), 'released');
  });

  it('is reported to a scope by its signal', async () => {
    const scope = client.using('scope', async (_lease, signal) => {
      await server.store.del('scope');
      await eventually(LIMIT_MS, () => signal.aborted);
      signal.throwIfAborted();
    });
    await assert.rejects(scope, LockLostError);
  });

  it('is visible at once after the event loop was blocked', async () => {
    const lease = await client.lock('blocked', { leaseMs: 200 }).lock();
    const until = performance.now() + 300;
    while (performance.now() < until);
    assert.equal(lease.isValid, false);
    assert.equal(lease.lostReason, 'expired');
    await lease.release();
  });
});

describe('a wait that times out', () => {
  it('returns in time, even if the server hangs or is down', async () => {
    await using server = await RedisServer.start();
    await using client = await connect(server.url, { commandTimeoutMs: 600 });
    const holder = await client.lock('held').lock();
    const inTime = async (waitMs: number, limitMs: number) => {
      const took = await elapsed(client.lock('free').lock({ waitMs }));
      assert.ok(took <= limitMs + 50, `${waitMs} ms took ${took} ms`);
    };
    const took = await elapsed(client.lock('held').lock({ waitMs: 200 }));
    assert.ok(took >= 200 && took <= 250, `200 ms took ${took} ms`);
    server.pause();
    await inTime(200, 200);
    await inTime(0, 600);
    await assert.rejects(client.lock('free').tryLock(), UnavailableError);
    server.resume();
    await server.kill();
    await inTime(200, 200);
    await inTime(0, 600);
    await holder.release();
  });
});

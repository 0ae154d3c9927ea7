// Tests of locks, on the embedded store and on a real server.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, connect, InvalidArgumentError, LockLostError, LockTimeoutError, NotOwnerError } from 'steadlock';
import { eventually, RedisServer } from './server.js';

for (const transport of ['memory', 'redis'] as const) {
  describe(`a lock on ${transport}`, () => {
    let server: RedisServer | undefined;
    let client: Client;
    let other: Client;

    before(async () => {
      server = transport === 'redis' ? await RedisServer.start() : undefined;
      const url = server?.url ?? 'memory://lock-test';
      client = await connect(url);
      other = await connect(url);
    });

    after(async () => {
      await client.close();
      await other.close();
      await server?.[Symbol.asyncDispose]();
    });

    it('is acquired, visible and released', async () => {
      const lock = client.lock('taken');
      assert.equal(await lock.isLocked(), false);
      const lease = await lock.lock();
      assert.equal(lease.name, 'taken');
      assert.ok(lease.isValid);
      assert.ok(lease.remainingMs > 29_000 && lease.remainingMs <= 30_000);
      assert.equal(lease.lostReason, null);
      assert.ok(lock.isHeld());
      assert.equal(await other.lock('taken').isLocked(), true);
      assert.equal(other.lock('taken').isHeld(), false);
      assert.equal(await lease.release(), 'released');
      assert.equal(lease.isValid, false);
      assert.equal(lease.remainingMs, 0);
      assert.equal(lease.lostReason, null);
      assert.equal(lock.isHeld(), false);
      assert.equal(await lock.isLocked(), false);
    });

    it('is not reentrant for a second caller of one shared object', async () => {
      const lock = client.lock('shared');
      const first = await lock.lock();
      assert.equal(await lock.tryLock(), null);
      let granted = false;
      const second = lock.lock().then((lease) => {
        granted = true;
        return lease;
      });
      // The server answers a client's calls in order, so the second attempt was refused before this reply.
      assert.equal(await lock.isLocked(), true);
      assert.equal(granted, false);
      await first.release();
      await (await second).release();
    });

    it('is renewed as the options of the call say, and without them as the lock object says', async () => {
      // 200 ms are too short for an auto-renewed lease, and long enough for a fixed one.
      const renewed = client.lock('renewed', { leaseMs: 5_000, renew: true });
      const fixed = client.lock('renewed', { leaseMs: 200 });
      const short = client.lock('renewed', { leaseMs: 200, renew: true });
      const lease = await renewed.lock();
      assert.ok(lease.remainingMs > 4_000 && lease.remainingMs <= 5_000);
      await lease.release();
      await (await renewed.lock({ leaseMs: 200 })).release();
      await (await short.lock({ renew: false })).release();
      const tooShort = (error: Error) =>
        error instanceof InvalidArgumentError && /200ms is too short to be renewed.*300ms/.test(error.message);
      await assert.rejects(renewed.lock({ leaseMs: 200, renew: true }), tooShort);
      await assert.rejects(fixed.tryLock({ renew: true }), tooShort);
      await assert.rejects(short.lock(), tooShort);
      await assert.rejects(client.semaphore('renewed', 1, { leaseMs: 200, renew: true }).acquire(), tooShort);
      await assert.rejects(
        client.using('renewed', { leaseMs: 200, renew: true }, () => assert.fail()),
        tooShort,
      );
      assert.throws(() => client.lock('renewed', { renew: 1 as never }), InvalidArgumentError);
      assert.equal(await renewed.isLocked(), false);
    });

    it('is re-entered within a held lease, and free after the last release', async () => {
      const lock = client.lock('again');
      const outer = await lock.lock();
      const inner = await lock.lock({ within: outer });
      assert.equal(inner.token, outer.token);
      assert.equal(await inner.release(), 'released');
      assert.ok(outer.isValid);
      assert.equal(await other.lock('again').tryLock(), null);
      await outer.release();
      assert.equal(await lock.isLocked(), false);
    });

    it('ignores a second release of a lease', async () => {
      const lock = client.lock('twice');
      const first = await lock.lock();
      assert.equal(await first.release(), 'released');
      const second = await lock.lock();
      assert.equal(await first.release(), 'released');
      assert.equal(await lock.unlock(first), 'released');
      assert.ok(second.isValid);
      assert.equal(await other.lock('twice').tryLock(), null);
      await second.release();
    });

    it('does not accept the lease of another lock', async () => {
      const lease = await client.lock('mine').lock();
      await assert.rejects(client.lock('yours').unlock(lease), NotOwnerError);
      await assert.rejects(other.lock('mine').unlock(lease), NotOwnerError);
      await assert.rejects(other.lock('mine').lock({ within: lease }), InvalidArgumentError);
      await assert.rejects(client.lock('yours').lock({ within: lease }));
      assert.ok(lease.isValid);
      await lease.release();
    });

    it('names the holder after a timeout', async () => {
      const lease = await client.lock('held').lock();
      const refused = await other
        .lock('held')
        .lock({ waitMs: 250 })
        .catch((error) => error);
      assert.ok(refused instanceof LockTimeoutError);
      assert.equal(refused.kind, 'LockTimeout');
      assert.equal(refused.code, 'STEADLOCK_LOCK_TIMEOUT');
      assert.equal(refused.lockName, 'held');
      assert.match(refused.holder?.owner ?? '', /^[0-9a-f-]{36}:\d+$/);
      assert.ok((refused.holder?.remainingMs ?? 0) > 20_000);
      assert.match(refused.stack ?? '', /lock\.test/, 'its stack names the caller');
      await lease.release();
    });

    it('with a fixed lease expires, and a late release reports that', async () => {
      const lock = client.lock('fixed', { leaseMs: 150 });
      const lease = await lock.lock();
      await eventually(20_000, () => lease.lostReason === 'expired');
      assert.equal(lease.isValid, false);
      // The record on the server lasts a little longer than the lease.
      await eventually(20_000, async () => !(await lock.isLocked()));
      assert.equal(await lease.release(), 'expired');
      assert.equal(lease.lostReason, 'expired');
    });

    it('can be acquired again after its fixed lease expired, and that lease stays lost', async () => {
      const lock = client.lock('expired', { leaseMs: 150 });
      const lease = await lock.lock();
      await eventually(20_000, () => lease.lostReason === 'expired' && lease.signal.aborted);
      const again = await lock.lock({ leaseMs: 20_000 });
      const lost = { name: 'LockLostError', reason: 'expired' };
      await assert.rejects(lease.extend(), lost);
      await assert.rejects(lock.lock({ within: lease }), lost);
      await assert.rejects(lease[Symbol.asyncDispose](), lost);
      assert.equal(await lease.release(), 'expired');
      assert.equal(again.isValid, true);
      assert.equal(await lock.unlock(again), 'released');
    });

    it('ends at maxHoldMs', async () => {
      const lease = await client.lock('bounded').lock({ maxHoldMs: 200 });
      const { signal } = lease;
      await eventually(20_000, () => signal.aborted);
      assert.ok(signal.reason instanceof LockLostError);
      assert.equal(signal.reason.reason, 'max_hold');
      await assert.rejects(lease.extend(), { name: 'LockLostError', reason: 'max_hold' });
      const again = client.lock('bounded').lock({ within: lease });
      await assert.rejects(again, { name: 'LockLostError', reason: 'max_hold' });
      await lease.release();
    });

    it('excludes sixteen contenders', async () => {
      let counter = 0;
      const contend = async (client: Client) => {
        const lock = client.lock('counter');
        for (let round = 0; round < 25; round++) {
          const lease = await lock.lock();
          const seen = counter;
          await sleep(0);
          counter = seen + 1;
          await lease.release();
        }
      };
      await Promise.all(Array.from({ length: 16 }, (_, n) => contend(n % 2 ? client : other)));
      assert.equal(counter, 400);
    });

    it('has a higher token for each grant', async () => {
      const lock = client.lock('fenced');
      let last = 0;
      for (let grant = 0; grant < 1_000; grant++) {
        const lease = await (grant % 2 ? lock : other.lock('fenced')).lock();
        assert.ok(Number.isSafeInteger(lease.token));
        assert.ok((lease.token as number) > last);
        last = lease.token as number;
        assert.equal(JSON.stringify({ token: lease.token }), `{"token":${last}}`);
        await lease.release();
      }
    });
  });
}

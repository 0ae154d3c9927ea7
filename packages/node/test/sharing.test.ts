// Tests of one lock object with several callers: a caller without a lease of its own releases nothing.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { type Client, connect, InvalidArgumentError, type Lease, type Lock, NotOwnerError, redlock } from 'steadlock';
import { eventually, RedisServer } from './server.js';

const AT_ONCE = 100;

/** Every kind of lock that one owner holds alone. */
const KINDS: Record<string, (client: Client, name: string) => Lock> = {
  lock: (client, name) => client.lock(name),
  mutex: (client, name) => client.mutex(name),
  'fair lock': (client, name) => client.fairLock(name),
  'write side': (client, name) => client.readWriteLock(name).write,
  'several locks as one': (client, name) => client.multiLock([client.lock(`${name}:a`), client.mutex(`${name}:b`)]),
  'permits of a semaphore': (client, name) => client.semaphore(name, 2).permits(2),
};

/** Values that are no lease. */
const NO_LEASES = [undefined, null, {}, 'lease', 5, Object.create(null)];

for (const transport of ['memory', 'redis'] as const) {
  describe(`one lock object of several callers, on ${transport}`, () => {
    let server: RedisServer | undefined;
    let client: Client;
    let other: Client;

    before(async () => {
      server = transport === 'redis' ? await RedisServer.start() : undefined;
      const url = server?.url ?? 'memory://sharing';
      client = await connect(url);
      other = await connect(url);
    });

    after(async () => {
      await client.close();
      await other.close();
      await server?.[Symbol.asyncDispose]();
    });

    for (const [kind, make] of Object.entries(KINDS)) {
      it(`grants one of ${AT_ONCE} concurrent attempts: ${kind}`, async () => {
        const lock = make(client, `once ${kind}`);
        const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => lock.tryLock()));
        const [lease, ...others] = answers.filter((answer) => answer !== null);
        assert.ok(lease?.isValid);
        assert.deepEqual(others, []);
        assert.equal(await lock.unlock(lease), 'released');
        const next = await lock.tryLock();
        assert.ok(next);
        await next.release();
      });

      it(`an unlock after a refused attempt releases nothing: ${kind}`, async () => {
        const lock = make(client, `failed ${kind}`);
        const lease = await lock.lock();
        const failed = await lock.tryLock();
        assert.equal(failed, null);
        await assert.rejects(lock.unlock(failed as never), InvalidArgumentError);
        await assert.rejects((lock.unlock as () => Promise<unknown>).call(lock), InvalidArgumentError);
        assert.ok(lease.isValid);
        assert.equal(await make(other, `failed ${kind}`).tryLock(), null);
        assert.equal(await lock.unlock(lease), 'released');
      });
    }

    it('accepts only a lease, and sends nothing otherwise', async () => {
      const lock = client.lock('nothing');
      const semaphore = client.semaphore('nothing', 1);
      const [lease, permit] = [await lock.lock(), await semaphore.acquire()];
      const calls = await server?.scriptCalls();
      for (const value of NO_LEASES) {
        const refused = { name: 'InvalidArgumentError', lockName: 'nothing', operation: 'release' };
        await assert.rejects(lock.unlock(value as never), refused);
        await assert.rejects(semaphore.release(value as never), refused);
      }
      const elsewhere = await client.lock('elsewhere').lock();
      const sent = (await server?.scriptCalls()) ?? 0;
      await assert.rejects(lock.unlock(elsewhere), NotOwnerError);
      await assert.rejects(lock.unlock(permit), NotOwnerError);
      await assert.rejects(semaphore.release(lease), NotOwnerError);
      await assert.rejects(other.lock('nothing').unlock(lease), NotOwnerError);
      if (server) {
        // The one call is the acquisition of `elsewhere`.
        assert.equal(sent - (calls as number), 1);
        assert.equal(await server.scriptCalls(), sent);
      }
      assert.ok(lease.isValid && permit.isValid && elsewhere.isValid);
      assert.deepEqual(
        [await lock.unlock(lease), await semaphore.release(permit), await elsewhere.release()],
        ['released', 'released', 'released'],
      );
    });

    it('admits the second caller only after the first has released', async () => {
      const lock = client.lock('turns');
      let inside = 0;
      let entered = 0;
      const caller = async () => {
        const lease = await lock.lock();
        inside += 1;
        entered += 1;
        assert.equal(inside, 1);
        await turn();
        assert.equal(inside, 1);
        inside -= 1;
        await lock.unlock(lease);
      };
      await Promise.all(Array.from({ length: 20 }, caller));
      assert.equal(entered, 20);
    });

    it('isHeld() is true while one of its leases is valid', async () => {
      const lock = client.lock('held');
      assert.equal(lock.isHeld(), false);
      const fixed = await lock.lock({ leaseMs: 150 });
      assert.equal(lock.isHeld(), true);
      assert.equal(client.lock('held').isHeld(), false);
      // Only the clock ends the lease: this thread has not run the event loop, so it got no event.
      const until = performance.now() + 200;
      while (performance.now() < until);
      assert.equal(lock.isHeld(), false);
      const renewed = await lock.lock({ waitMs: 5_000 });
      const inner = await lock.lock({ within: renewed });
      assert.equal(await lock.unlock(inner), 'released');
      assert.equal(lock.isHeld(), true);
      await other.forceRelease(other.lock('held'));
      // The length must exceed the rest of the lease: only such an extension certainly makes a server call.
      await assert.rejects(renewed.extend(60_000), { reason: 'removed' });
      await eventually(5_000, () => !lock.isHeld());
      await renewed.release();
      await fixed.release();
    });
  });
}

describe('one lock object of several callers, on a majority of primaries', () => {
  it(`grants one of ${AT_ONCE} concurrent attempts, and only its lease releases the lock`, async () => {
    await using client = await redlock(['memory://sharing-1', 'memory://sharing-2', 'memory://sharing-3']);
    const lock = client.lock('once');
    const answers = await Promise.all(Array.from({ length: AT_ONCE }, () => lock.tryLock()));
    const leases = answers.filter((answer): answer is Lease => answer !== null);
    assert.equal(leases.length, 1);
    await assert.rejects(lock.unlock(null as never), InvalidArgumentError);
    assert.equal(await lock.unlock(leases[0] as Lease), 'released');
  });
});

// Tests of the release of a lost lock: the call reports the loss, and does not hide the program's own error.

import assert from 'node:assert/strict';
import { after, afterEach, before, describe, it } from 'node:test';
import { type Client, ClosedError, connect, type Lease, type Lock, LockLostError, NotOwnerError } from 'steadlock';
import { eventually, RedisServer } from './server.js';

const mistake = new Error('mine');

describe('a lost lock', () => {
  let server: RedisServer;
  let client: Client;

  before(async () => {
    server = await RedisServer.start();
    client = await connect(server.url);
  });

  afterEach(() => server.store.flushall());

  after(async () => {
    await client.close();
    await server[Symbol.asyncDispose]();
  });

  /** Two ways to lose a hold of `name`, by the outcome of the release that finds the loss. */
  const losses = {
    expired: (name: string) => server.store.del(name),
    stolen: (name: string) => server.store.multi().del(name).hset(name, 'thief', '1').pexpire(name, 60_000).exec(),
  } as const;

  for (const [word, lose] of Object.entries(losses)) {
    const lost = { name: 'LockLostError', code: 'STEADLOCK_LOCK_LOST', reason: word, operation: 'release' };

    it(`is reported by the release that finds it ${word}`, async () => {
      const lock = client.lock(`finds-${word}`);
      const lease = await lock.lock();
      await lose(lock.name);
      await assert.rejects(lock.unlock(lease), { ...lost, lockName: lock.name });
      // `lease.release()` returns the outcome without an error.
      assert.equal(await lease.release(), word);
      const again = await client.lock(`word-${word}`).lock();
      await lose(again.name);
      assert.equal(await again.release(), word);
    });

    it(`is reported by unlock() even after the signal has reported it: ${word}`, async () => {
      const lock = client.lock(`told-${word}`);
      const lease = await lock.lock();
      await lose(lock.name);
      // The extension finds the loss at once, and the watchdog only at the next renewal.
      await assert.rejects(lease.extend(60_000), LockLostError);
      await eventually(20_000, () => lease.signal.aborted);
      const reason = word === 'expired' ? 'removed' : word;
      await assert.rejects(lock.unlock(lease), { ...lost, reason });
      // A second call has the same result.
      await assert.rejects(lock.unlock(lease), { ...lost, reason });
      assert.equal(await lease.release(), word);
    });
  }

  it('of a semaphore is reported by the release that finds it', async () => {
    const semaphore = client.semaphore('permits', 2);
    const lease = await semaphore.acquire(2);
    await server.store.del('steadlock:{permits}:semaphore');
    await assert.rejects(semaphore.release(lease), { name: 'LockLostError', reason: 'expired' });
    assert.equal(await lease.release(), 'expired');
  });

  it('with an expired fixed lease is not owned after the loss was reported', async () => {
    const lock = client.lock('expired', { leaseMs: 100 });
    const lease = await lock.lock();
    await eventually(5_000, () => lease.signal.aborted);
    const calls = await server.scriptCalls();
    const refused = { name: 'NotOwnerError', lockName: 'expired', operation: 'release' };
    await assert.rejects(lock.unlock(lease), refused);
    await assert.rejects(lock.unlock(lease), refused);
    assert.equal(await server.scriptCalls(), calls);
    assert.equal(await lease.release(), 'expired');
    await assert.rejects(lock.unlock(lease), NotOwnerError);
  });

  it('with an expired fixed lease is lost if the loss was not reported yet', async () => {
    const lock = client.lock('unreported', { leaseMs: 100 });
    const lease = await lock.lock();
    const until = performance.now() + 300;
    while (performance.now() < until);
    await assert.rejects(lock.unlock(lease), { name: 'LockLostError', reason: 'expired' });
  });

  it('is not reported if the outcome is unknown', async () => {
    await using paused = await RedisServer.start();
    const pausedClient = await connect(paused.url, { commandTimeoutMs: 1_000 });
    const lock = pausedClient.lock('unknown');
    const lease = await lock.lock();
    paused.pause();
    assert.equal(await lock.unlock(lease), 'unknown');
    paused.resume();
    await pausedClient.close();
  });

  it('of a closed client is reported as closed', async () => {
    const closing = await connect(server.url);
    const lock = closing.lock('closing');
    const [renewed, fixed] = [await lock.lock(), await closing.lock('closing-too').lock({ leaseMs: 5_000 })];
    await closing.close();
    await assert.rejects(lock.unlock(renewed), ClosedError);
    await assert.rejects(closing.lock('closing-too').unlock(fixed), ClosedError);
  });

  describe('at the end of a scope', () => {
    /** A lock that is lost in the body: the release finds the loss, or it was reported before. */
    const bodies: Record<string, { lock: () => Lock; body: (lease: Lease) => Promise<void> }> = {
      'found by the release': {
        lock: () => client.lock('scope'),
        body: async () => void (await server.store.del('scope')),
      },
      'reported before': {
        lock: () => client.lock('scope', { leaseMs: 100 }),
        body: async (lease) => void (await eventually(5_000, () => lease.signal.aborted)),
      },
    };

    for (const [when, { lock, body }] of Object.entries(bodies)) {
      it(`of using() is thrown only if the body throws nothing: ${when}`, async () => {
        const fails = client.using(lock(), async (lease) => {
          await body(lease);
          throw mistake;
        });
        await assert.rejects(fails, (error) => error === mistake);
        await assert.rejects(client.using(lock(), body), LockLostError);
      });

      it(`of await using is thrown alone, or with the error of the body: ${when}`, async () => {
        const fails = async () => {
          await using lease = await lock().lock({ waitMs: 5_000 });
          await body(lease);
          throw mistake;
        };
        // The end of the block does not know that its body failed. JavaScript keeps both errors.
        await assert.rejects(fails, (error: SuppressedError) => {
          assert.equal(error.name, 'SuppressedError');
          assert.equal(error.suppressed, mistake);
          assert.ok(error.error instanceof LockLostError);
          return true;
        });
        await assert.rejects(async () => {
          await using lease = await lock().lock({ waitMs: 5_000 });
          await body(lease);
        }, LockLostError);
      });

      it(`of try and finally is thrown only if the body throws nothing: ${when}`, async () => {
        const outcomes: string[] = [];
        /** The pattern of the README. */
        const scope = async (work: (lease: Lease) => Promise<void>) => {
          const one = lock();
          const lease = await one.lock({ waitMs: 5_000 });
          try {
            await work(lease);
            await one.unlock(lease);
          } finally {
            outcomes.push(await lease.release());
          }
        };
        const fails = scope(async (lease) => {
          await body(lease);
          throw mistake;
        });
        await assert.rejects(fails, (error) => error === mistake);
        // A fixed lease whose loss was reported has no owner any more.
        const expected = when === 'reported before' ? NotOwnerError : LockLostError;
        await assert.rejects(scope(body), expected);
        assert.deepEqual(outcomes, ['expired', 'expired']);
      });
    }

    it('throws only the error of the body if the lock was held', async () => {
      await assert.rejects(
        async () => {
          await using _lease = await client.lock('kept').lock();
          throw mistake;
        },
        (error) => error === mistake,
      );
    });
  });
});

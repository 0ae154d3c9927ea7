// Tests of the API of the kinds of lock in Node, on the embedded store and on a real server. The behaviour suite tests
// what the kinds do.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import {
  type Client,
  ClosedError,
  connect,
  InvalidArgumentError,
  type Lease,
  type Lock,
  LockLostError,
  LockTimeoutError,
  MisconfiguredError,
  NotOwnerError,
  type Semaphore,
} from 'steadlock';
import { EmbeddedServer, eventually, RedisServer } from './server.js';

for (const transport of ['memory', 'serve', 'redis'] as const) {
  describe(`the kinds of lock on ${transport}`, () => {
    let server: RedisServer | EmbeddedServer | undefined;
    let client: Client;
    let other: Client;

    before(async () => {
      if (transport === 'redis') server = await RedisServer.start();
      if (transport === 'serve') server = await EmbeddedServer.start();
      const url = server?.url ?? 'memory://kinds-test';
      client = await connect(url);
      other = await connect(url);
    });

    after(async () => {
      await client.close();
      await other.close();
      await server?.[Symbol.asyncDispose]();
    });

    it('are separate: locks of several kinds can have one name', async () => {
      const { read } = client.readWriteLock('one-name');
      const leases = [
        await client.lock('one-name').lock(),
        await read.lock(),
        await client.semaphore('one-name', 1).acquire(),
      ];
      assert.deepEqual(
        leases.map(({ name }) => name),
        ['one-name', 'one-name', 'one-name'],
      );
      await assert.rejects(other.mutex('one-name').tryLock(), MisconfiguredError);
      await assert.rejects(read.unlock(leases[0] as Lease), NotOwnerError);
      await assert.rejects(client.semaphore('one-name', 1).release(leases[1] as Lease), NotOwnerError);
      for (const lease of leases) assert.equal(await lease.release(), 'released');
    });

    it('a lease is released through any object of its lock', async () => {
      const lease = await client.mutex('any-object').lock();
      assert.equal(await client.mutex('any-object').unlock(lease), 'released');
      const permits = await client.semaphore('any-object', 3).acquire(2);
      assert.equal(await client.semaphore('any-object', 3).release(permits), 'released');
      assert.equal(await client.semaphore('any-object', 3).available(), 3);
    });

    it('errors name the lock as the program does', async () => {
      const locks: [string, Lock | Semaphore][] = [
        ['errors-m', client.mutex('errors-m')],
        ['errors-f', client.fairLock('errors-f')],
        ['errors-w', client.readWriteLock('errors-w').write],
        ['errors-s', client.semaphore('errors-s', 1)],
      ];
      for (const [name, lock] of locks) {
        const lease = await acquire(lock, {});
        const refused = await acquire(lock, { waitMs: 0 }).catch((error) => error);
        assert.ok(refused instanceof LockTimeoutError, name);
        assert.equal(refused.lockName, name);
        assert.ok(refused.message.includes(`"${name}"`), refused.message);
        assert.doesNotMatch(refused.message, /\0/);
        await lease.release();
      }
    });

    it('a mutex and a semaphore are not reentrant', async () => {
      const mutex = client.mutex('not-again');
      const lease = await mutex.lock();
      await assert.rejects(mutex.lock({ within: lease }), InvalidArgumentError);
      assert.ok(lease.isValid);
      await lease.release();
      const semaphore = client.semaphore('not-again', 1);
      const permit = await semaphore.acquire();
      assert.equal(await semaphore.tryAcquire(), null);
      assert.equal(await semaphore.release(permit), 'released');
      assert.equal(await permit.release(), 'released');
    });

    it('fair waiters are served in order of arrival across clients', async () => {
      const lease = await client.fairLock('arrival').lock();
      const served: number[] = [];
      const waiters: Promise<unknown>[] = [];
      for (let number = 0; number < 6; number++) {
        const lock = (number % 2 ? client : other).fairLock('arrival');
        const waiter = lock.lock({ waitMs: 10_000 });
        waiters.push(
          waiter.then((granted) => {
            served.push(number);
            return granted.release();
          }),
        );
        // A waiter has arrived when its request reaches the server. The server answers one client in order, so the
        // request of the waiter came before this reply.
        assert.equal(await lock.isLocked(), true);
      }
      await lease.release();
      await Promise.all(waiters);
      assert.deepEqual(served, [0, 1, 2, 3, 4, 5]);
    });

    it('a writer can read and keeps the read side, and a reader cannot write', async () => {
      const { read, write, name } = client.readWriteLock('downgrade');
      assert.equal(name, 'downgrade');
      const writing = await write.lock();
      const reading = await read.lock({ within: writing });
      assert.equal(typeof writing.token, 'number');
      assert.equal(reading.token, null);
      await writing.release();
      assert.ok(reading.isValid);
      const reader = await other.readWriteLock('downgrade').read.lock({ waitMs: 5_000 });
      assert.equal(await other.readWriteLock('downgrade').write.tryLock(), null);
      await assert.rejects(write.lock({ within: reading }), InvalidArgumentError);
      await reading.release();
      await reader.release();
    });

    it('the options of a read-write lock are those of both sides', async () => {
      const { read, write } = client.readWriteLock('sides', { leaseMs: 5_000, fencing: false });
      for (const side of [read, write]) {
        const lease = await side.lock();
        assert.ok(lease.remainingMs <= 5_000);
        assert.equal(lease.token, null);
        await lease.release();
      }
    });

    it('a semaphore uses the options of its object and of the call', async () => {
      const semaphore = client.semaphore('options', 2, { leaseMs: 5_000, waitMs: 250 });
      assert.equal(semaphore.name, 'options');
      assert.equal(semaphore.limit, 2);
      await using both = await semaphore.acquire(2);
      assert.ok(both.remainingMs <= 5_000);
      assert.equal(both.token, null);
      await assert.rejects(semaphore.acquire(), LockTimeoutError);
      assert.equal(await semaphore.tryAcquire(1), null);
      const { signal } = new AbortController();
      assert.equal(await semaphore.tryAcquire(undefined, { signal, waitMs: 250 }), null);
      const aborted = semaphore.acquire(1, { waitMs: 5_000, signal: AbortSignal.timeout(20) });
      await assert.rejects(aborted, { name: 'TimeoutError' });
    });

    it('the server counts the permits of a semaphore, whatever limit an object has', async () => {
      const lease = await client.semaphore('counted', 5).acquire(2);
      assert.equal(await other.semaphore('counted', 5).available(), 3);
      assert.equal(await other.semaphore('counted', 9).available(), 3);
      await assert.rejects(other.semaphore('counted', 9).acquire(), MisconfiguredError);
      await lease.release();
      assert.equal(await other.semaphore('counted', 9).available(), 9);
    });

    it('permits can be used as a lock and as a member', async () => {
      const semaphore = client.semaphore('permits', 3, { leaseMs: 5_000 });
      const two = semaphore.permits(2);
      assert.equal(two.name, 'permits');
      assert.equal(await two.isLocked(), false);
      const lease = await two.lock();
      assert.ok(lease.remainingMs <= 5_000);
      assert.equal(await semaphore.available(), 1);
      assert.ok(two.isHeld());
      assert.equal(await semaphore.permits(1).isLocked(), true);
      assert.equal(await two.tryLock(), null);
      assert.equal(await semaphore.release(lease), 'released');
      assert.equal(await two.unlock(await semaphore.acquire()), 'released');
      await client.using(client.multiLock([client.lock('permits'), two]), async () => {
        assert.equal(await other.semaphore('permits', 3).available(), 1);
      });
      await client.using(client.multiLock([semaphore]), async () => {
        assert.equal(await other.semaphore('permits', 3).available(), 2);
      });
      for (const permits of [0, 4]) await assert.rejects(semaphore.permits(permits).lock(), InvalidArgumentError);
      assert.throws(() => semaphore.permits('2' as never), InvalidArgumentError);
    });

    it('holder() names the holder of a lock of any kind', async () => {
      const { read, write } = client.readWriteLock('holder');
      const locks = { read, write, permits: client.semaphore('holder', 3).permits(2) };
      const named = {
        lock: client.lock('holder-l'),
        mutex: client.mutex('holder-m'),
        fairLock: client.fairLock('holder-f'),
      };
      for (const [kind, lock] of Object.entries({ ...locks, ...named })) {
        assert.equal(await lock.holder(), null, kind);
        const first = await lock.lock({ leaseMs: 20_000 });
        const holder = await lock.holder();
        assert.ok(holder?.remainingMs && holder.remainingMs > 15_000 && holder.remainingMs <= 20_000, kind);
        await first.release();
        assert.equal(await lock.holder(), null, kind);
        const second = await lock.lock();
        // Each grant has an owner id of its own, and replies that come together keep their order.
        const [again, free] = await Promise.all([lock.holder(), client.lock('holder-free').holder()]);
        assert.notEqual(again?.owner, holder.owner, kind);
        assert.equal(free, null);
        await second.release();
      }
      const mutex = await client.mutex('holder-m').lock();
      const refused = await other
        .mutex('holder-m')
        .lock({ waitMs: 0 })
        .catch((error) => error);
      assert.ok(refused instanceof LockTimeoutError);
      assert.equal(refused.holder?.owner, (await other.mutex('holder-m').holder())?.owner);
      await mutex.release();
    });

    it('a composite lock has one lease with all names and no token', async () => {
      const members = [client.lock('several-a'), client.mutex('several-ü'), client.semaphore('several-c', 2)];
      const all = client.multiLock(members, { leaseMs: 20_000 });
      assert.equal(all.name, 'several-a, several-ü, several-c');
      const lease = await all.lock();
      assert.equal(lease.name, all.name);
      assert.equal(lease.token, null);
      assert.ok(lease.remainingMs > 15_000 && lease.remainingMs <= 20_000);
      assert.ok(all.isHeld());
      assert.equal(await other.lock('several-a').isLocked(), true);
      assert.equal(await other.mutex('several-ü').isLocked(), true);
      assert.equal(await other.semaphore('several-c', 2).available(), 1);
      await assert.rejects(all.isLocked(), InvalidArgumentError);
      await assert.rejects(all.holder(), InvalidArgumentError);
      await assert.rejects(client.forceRelease(all), InvalidArgumentError);
      await lease.extend(60_000);
      assert.ok(lease.remainingMs > 50_000);
      assert.equal(await all.unlock(lease), 'released');
      assert.equal(await other.lock('several-a').isLocked(), false);
      assert.equal(await other.semaphore('several-c', 2).available(), 2);
    });

    it('empty, duplicate and nested composite locks are refused', async () => {
      const pair = client.multiLock(new Set([client.lock('pair-a'), client.lock('pair-b')]));
      for (const locks of [[], [client.lock('same'), client.fairLock('same')], [pair, client.lock('third')]]) {
        await assert.rejects(client.multiLock(locks).lock(), InvalidArgumentError);
      }
      assert.equal(await client.lock('third').isLocked(), false);
    });

    it('a forced release returns whether the lock was held, and the holder is notified', async () => {
      await using short = await connect(server?.url ?? 'memory://kinds-test', { leaseMs: 3_000 });
      const kinds = [
        (client: Client) => client.lock('force'),
        (client: Client) => client.mutex('force-mutex'),
        (client: Client) => client.fairLock('force-fair'),
        (client: Client) => client.readWriteLock('force').read,
        (client: Client) => client.readWriteLock('force-write').write,
        (client: Client) => client.semaphore('force', 3),
      ];
      const loses = async (lockOf: (client: Client) => Lock | Semaphore) => {
        assert.equal(await other.forceRelease(lockOf(other)), false);
        const lease = await acquire(lockOf(short), {});
        const { signal } = lease;
        assert.equal(await other.forceRelease(lockOf(other)), true);
        await eventually(20_000, () => signal.aborted);
        assert.ok(signal.reason instanceof LockLostError);
        assert.equal(lease.lostReason, 'removed');
        await lease.release();
      };
      await Promise.all(kinds.map(loses));
    });

    it('an operator changes the limit of a semaphore that is held', async () => {
      const semaphore = client.semaphore('limit', 3);
      assert.equal(await other.setLimit('limit', 1), false);
      const lease = await semaphore.acquire(2);
      assert.equal(await other.setLimit('limit', 1), true);
      assert.equal(await semaphore.available(), 0);
      await assert.rejects(semaphore.tryAcquire(), MisconfiguredError);
      assert.equal(await other.semaphore('limit', 1).tryAcquire(), null);
      await lease.extend(20_000);
      assert.equal(await other.setLimit('limit', 4), true);
      const rest = await other.semaphore('limit', 4).acquire(2);
      assert.equal(await lease.release(), 'released');
      assert.equal(await rest.release(), 'released');
      for (const limit of [0, 1_000_001, 1.5]) {
        await assert.rejects(client.setLimit('limit', limit), InvalidArgumentError);
      }
      await assert.rejects(client.setLimit('limit', '2' as unknown as number), InvalidArgumentError);
    });

    it('a scope holds a lock object of any kind', async () => {
      const mutex = client.mutex('scope', { leaseMs: 5_000 });
      const { read, write } = client.readWriteLock('scope-rw');
      const semaphore = client.semaphore('scope-s', 2);
      const token = await client.using(mutex, async (lease, signal) => {
        assert.equal(signal, lease.signal);
        assert.ok(lease.remainingMs <= 5_000);
        assert.equal(await other.mutex('scope').tryLock(), null);
        return lease.token;
      });
      assert.equal(typeof token, 'number');
      assert.equal(await mutex.isLocked(), false);
      await client.using(write, async (writing) => {
        await client.using(read, { within: writing }, (reading) => assert.ok(reading.isValid));
      });
      await client.using(semaphore, async () => assert.equal(await semaphore.available(), 1));
      await client.using(client.multiLock([mutex, write, semaphore]), { leaseMs: 1_000 }, async (lease) => {
        assert.ok(lease.remainingMs <= 1_000);
        await assert.rejects(
          client.using(mutex, { waitMs: 0 }, () => assert.fail('it ran')),
          LockTimeoutError,
        );
      });
      assert.equal(await mutex.isLocked(), false);
    });

    it('an aborted wait leaves no record', async () => {
      for (const lockOf of [
        (client: Client) => client.mutex('abort-mutex'),
        (client: Client) => client.fairLock('abort-fair'),
        (client: Client) => client.readWriteLock('abort-rw').write,
        (client: Client) => client.semaphore('abort-s', 1),
        (client: Client) => client.multiLock([client.lock('abort-a'), client.mutex('abort-b')]),
      ]) {
        const lease = await acquire(lockOf(client), {});
        const aborted = acquire(lockOf(other), { signal: AbortSignal.timeout(50) });
        await assert.rejects(aborted, { name: 'TimeoutError' });
        await lease.release();
        await (await acquire(lockOf(client), { waitMs: 5_000 })).release();
      }
    });

    it('a closed client refuses all kinds', async () => {
      const closed = await connect(server?.url ?? 'memory://kinds-test');
      const locks = [closed.mutex('c'), closed.readWriteLock('c').read, closed.semaphore('c', 1)];
      const all = closed.multiLock(locks);
      await closed.close();
      for (const lock of [...locks, all]) {
        await assert.rejects(acquire(lock, {}), ClosedError);
        if (lock !== all) await assert.rejects(closed.forceRelease(lock), ClosedError);
      }
      await assert.rejects(closed.semaphore('c', 1).available(), ClosedError);
    });

    it('invalid arguments are refused', async () => {
      for (const factory of ['mutex', 'fairLock', 'readWriteLock'] as const) {
        for (const name of [7, undefined, '\ud800']) {
          assert.throws(() => client[factory](name as string), InvalidArgumentError);
        }
        assert.throws(() => client[factory]('types', { leaseMs: '5' as never }), InvalidArgumentError);
      }
      for (const limit of ['3', null, undefined, 3n]) {
        assert.throws(() => client.semaphore('types', limit as never), InvalidArgumentError);
      }
      for (const limit of [0, -1, 1.5, Number.NaN, 1_000_001, 1e21]) {
        await assert.rejects(client.semaphore('types', limit).acquire(), InvalidArgumentError, `${limit}`);
        await assert.rejects(client.semaphore('types', limit).available(), InvalidArgumentError, `${limit}`);
      }
      const semaphore = client.semaphore('types', 5);
      for (const permits of [0, -1, 1.5, 6, Number.NaN, '2', null, {}]) {
        await assert.rejects(semaphore.acquire(permits as number), InvalidArgumentError, `${permits}`);
        await assert.rejects(semaphore.tryAcquire(permits as number), InvalidArgumentError, `${permits}`);
      }
      assert.equal(await semaphore.available(), 5);
      for (const lock of ['name', null, undefined, {}, other.lock('types'), other.semaphore('types', 1)] as never[]) {
        assert.throws(() => client.multiLock([lock]), InvalidArgumentError);
        await assert.rejects(client.forceRelease(lock), InvalidArgumentError);
        if (lock === 'name') continue;
        await assert.rejects(
          client.using(lock, () => assert.fail('it ran')),
          InvalidArgumentError,
        );
      }
      for (const locks of ['ab', null, 5]) assert.throws(() => client.multiLock(locks as never), InvalidArgumentError);
      for (const name of ['', 'a\0b', 'multi\x009\0lock\0a', 'n'.repeat(513)]) {
        await assert.rejects(client.mutex(name).lock(), InvalidArgumentError);
        await assert.rejects(client.semaphore(name, 1).acquire(), InvalidArgumentError);
        await assert.rejects(client.multiLock([client.lock(name)]).lock(), InvalidArgumentError);
      }
    });
  });
}

function acquire(lock: Lock | Semaphore, options: { waitMs?: number; signal?: AbortSignal }) {
  return 'limit' in lock ? lock.acquire(1, options) : lock.lock(options);
}

// Tests of a lock that a majority of three redis-servers holds.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import {
  InvalidArgumentError,
  LockTimeoutError,
  MisconfiguredError,
  NotOwnerError,
  redlock,
  UnavailableError,
} from 'steadlock';
import { elapsed, eventually, RedisServer } from './server.js';

describe('a lock on a majority of primaries', () => {
  let servers: [RedisServer, RedisServer, RedisServer];
  let urls: string[];

  beforeEach(async () => {
    servers = await Promise.all([RedisServer.start(), RedisServer.start(), RedisServer.start()]);
    urls = servers.map(({ url }) => url);
  });

  afterEach(() => Promise.all(servers.map((server) => server[Symbol.asyncDispose]())));

  /** Returns how many of the running servers have a key of a lock. */
  async function keys(...running: RedisServer[]): Promise<number> {
    const keys = await Promise.all((running.length > 0 ? running : servers).map((server) => server.keys()));
    return keys.filter(({ length }) => length > 0).length;
  }

  it('is held on all primaries, excludes others, and leaves no record', async () => {
    await using one = await redlock(urls);
    await using two = await redlock(urls);
    const lease = await one.lock('a').lock();
    assert.equal(lease.token, null);
    assert.equal(lease.name, 'a');
    assert.ok(lease.remainingMs > 29_000, `${lease.remainingMs}`);
    await eventually(5_000, async () => (await keys()) === 3);
    assert.ok(await two.lock('a').isLocked());
    assert.equal(await two.lock('a').tryLock(), null);
    // `lock` and `mutex` return the same lock.
    await assert.rejects(two.mutex('a').lock({ waitMs: 250 }), LockTimeoutError);
    const next = two.lock('a').lock({ waitMs: 5_000 });
    await lease.extend(40_000);
    assert.equal(await lease.release(), 'released');
    assert.equal(await (await next).release(), 'released');
    assert.equal(await one.using('a', () => 42), 42);
    await eventually(5_000, async () => (await keys()) === 0);
    assert.ok(!(await one.lock('a').isLocked()));
  });

  it('works with one server down, and is unavailable with two down', async () => {
    await using client = await redlock(urls);
    const held = await client.lock('before').lock();
    // All three records must exist: with one server killed, only the other two can confirm the release.
    await eventually(5_000, async () => (await keys()) === 3);
    await servers[1].kill();
    assert.ok(held.isValid);
    assert.equal(await held.release(), 'released');
    assert.equal(await (await client.lock('a').lock({ waitMs: 5_000 })).release(), 'released');
    await using fresh = await redlock(urls);
    assert.equal(await (await fresh.mutex('b').lock({ waitMs: 5_000 })).release(), 'released');
    await eventually(5_000, async () => (await keys(servers[0], servers[2])) === 0);

    await servers[2].kill();
    const refused = client.lock('a').lock({ waitMs: 700 });
    const took = await elapsed(refused);
    await assert.rejects(refused, UnavailableError);
    // A wait without a bound would end after 30 s.
    assert.ok(took < 15_000, `${took}`);
    await assert.rejects(redlock(urls, { connectTimeoutMs: 1_000 }), UnavailableError);
    await eventually(5_000, async () => (await keys(servers[0])) === 0);
  });

  it('leaves no record when its client closes or a waiter times out', async () => {
    const [one, two] = [await redlock(urls), await redlock(urls)];
    const lease = await one.lock('a').lock();
    await assert.rejects(two.lock('a').lock({ signal: AbortSignal.timeout(50) }), { name: 'TimeoutError' });
    await one.close();
    assert.equal(lease.lostReason, 'closed');
    await two.close();
    await eventually(5_000, async () => (await keys()) === 0);
  });

  it('refuses other kinds and re-entry', async () => {
    await using client = await redlock(urls);
    const { read, write } = client.readWriteLock('a');
    for (const lock of [client.fairLock('a'), read, write, client.multiLock([client.lock('a'), client.mutex('b')])]) {
      await assert.rejects(lock.lock(), InvalidArgumentError, lock.name);
    }
    await assert.rejects(client.semaphore('a', 1).acquire(), InvalidArgumentError);
    const lease = await client.lock('a').lock();
    await assert.rejects(client.lock('a').lock({ within: lease }), InvalidArgumentError);
    await assert.rejects(client.lock('b').unlock(lease), NotOwnerError);
    await lease.release();
  });

  it('needs an odd number of different primaries', async () => {
    const [a, b] = urls as [string, string];
    await assert.rejects(redlock([a, b, a]), MisconfiguredError);
    await assert.rejects(redlock([a, b, a.replace('127.0.0.1', 'localhost')]), MisconfiguredError);
    await assert.rejects(redlock([a, b]), InvalidArgumentError);
    await assert.rejects(redlock([a]), InvalidArgumentError);
    await assert.rejects(redlock([...urls, 'memory://d']), InvalidArgumentError);
    await assert.rejects(redlock(['memory://', 'memory://', 'memory://']), InvalidArgumentError);
    await assert.rejects(redlock([a, b, 'nonsense']), InvalidArgumentError);
  });

  it('refuses URLs and options of the wrong type', async () => {
    for (const value of [undefined, null, urls[0], 5, {}, new Set(urls), [...urls.slice(1), 5], new Array(3)]) {
      await assert.rejects(redlock(value as never), InvalidArgumentError, `${value}`);
    }
    await assert.rejects(redlock(urls, { leaseMs: '5' as never }), InvalidArgumentError);
    await assert.rejects(redlock(urls, { leaseMs: 0 }), InvalidArgumentError);
  });

  it('does not use STEADLOCK_URL', async () => {
    const before = process.env.STEADLOCK_URL;
    process.env.STEADLOCK_URL = urls[0];
    try {
      await using client = await redlock(urls);
      await (await client.lock('a').lock()).release();
    } finally {
      if (before === undefined) delete process.env.STEADLOCK_URL;
      else process.env.STEADLOCK_URL = before;
    }
  });
});

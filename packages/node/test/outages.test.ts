// Tests of acquisitions while a real server does not answer, and afterwards.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, it } from 'node:test';
import {
  type Client,
  type ConnectOptions,
  connect,
  InvalidArgumentError,
  type Lease,
  type OnUnavailable,
  redlock,
  UnavailableError,
} from 'steadlock';
import { elapsed, eventually, RedisServer } from './server.js';

const SOON_MS = 20_000;
/** A call that makes no server call takes less; a call that waits takes longer. */
const SHORT_MS = 10_000;
/** The failures in a row that open the circuit breaker. */
const FAILURES = 3;
const POLICIES: OnUnavailable[] = ['fail', 'local', 'skip'];

const failed = ({ name, skipped, message }: UnavailableError) =>
  name === 'UnavailableError' && skipped === false && message.includes('circuit breaker');
const skipped = (error: UnavailableError) =>
  error instanceof UnavailableError && error.skipped && error.retryable && error.message.includes('skipped');

describe('while a server is unavailable', () => {
  let server: RedisServer;

  beforeEach(async () => {
    server = await RedisServer.start();
  });

  afterEach(() => server[Symbol.asyncDispose]());

  /** Opens a client that notices an outage soon. */
  function quick(options?: ConnectOptions): Promise<Client> {
    const timeouts = { commandTimeoutMs: 1_000, connectTimeoutMs: 2_000 };
    return connect(server.url, { ...timeouts, breakerFailures: FAILURES, breakerPauseMs: 400, ...options });
  }

  /** Makes attempts until the circuit breaker is open, several at once, as each waits for the command timeout. */
  async function untilOpen(client: Client): Promise<void> {
    const attempt = async (_: unknown, number: number) => {
      const lock = client.lock(`canary-${number}`);
      const error = await lock.lock({ onUnavailable: 'fail' }).catch((error) => error);
      assert.ok(error instanceof UnavailableError, `${error}`);
      return failed(error);
    };
    await eventually(SOON_MS, async () => {
      const attempts = await Promise.all(Array.from({ length: FAILURES }, attempt));
      return attempts.every(Boolean);
    });
  }

  /** Makes attempts until the server grants locks again. */
  async function untilClosed(client: Client): Promise<void> {
    await eventually(SOON_MS, async () => {
      const lease = await client
        .lock('canary')
        .lock({ onUnavailable: 'fail' })
        .catch((error) => assert.ok(error instanceof UnavailableError, `${error}`));
      if (!lease) return false;
      assert.ok(!lease.degraded);
      return (await lease.release()) === 'released';
    });
  }

  it('calls fail at once, held locks stay valid, and events are emitted', async () => {
    await using client = await quick();
    const events: string[] = [];
    client.events.on('breakerOpened', ({ level, server }) => events.push(`opened ${level} ${server}`));
    client.events.on('breakerClosed', ({ openMs }) => events.push(`closed ${typeof openMs}`));
    const kept = await client.lock('kept').lock();
    assert.equal(kept.degraded, false);
    server.pause();
    await untilOpen(client);
    for (const waitMs of [undefined, 0, SOON_MS]) {
      const call = client.lock('a').lock({ waitMs });
      assert.ok((await elapsed(call)) < SHORT_MS);
      await assert.rejects(call, (error: UnavailableError) => failed(error) && error.retryable && error.node !== null);
    }
    await assert.rejects(client.lock('a').tryLock(), failed);
    await assert.rejects(client.lock('a').isLocked(), failed);
    await assert.rejects(
      client.using('a', () => assert.fail('it ran')),
      failed,
    );
    assert.ok(kept.isValid);
    server.resume();
    await untilClosed(client);
    assert.equal(await kept.release(), 'released');
    const address = server.url.replace('redis://', '');
    await eventually(SOON_MS, () => events.length === 2);
    assert.deepEqual(events, [`opened warn ${address}`, 'closed number']);
  });

  it('locks are granted locally until the server is back', async () => {
    await using client = await quick({ onUnavailable: 'local' });
    await server.kill();
    await untilOpen(client);
    const here = await client.lock('a').lock();
    assert.deepEqual([here.degraded, here.isValid, here.token, here.lostReason], [true, true, null, null]);
    assert.equal(await client.lock('a').tryLock(), null);
    assert.equal(await client.fairLock('a').tryLock(), null);
    const again = await client.lock('a').lock({ within: here });
    assert.equal(again.degraded, true);
    assert.equal(await again.release(), 'released');
    assert.equal(await client.using('b', ({ degraded }) => degraded), true);
    const pair = await client.multiLock([client.lock('c'), client.fairLock('d')]).lock();
    assert.equal(pair.degraded, true);
    await pair.release();
    // Only the server can count permits and readers, so these kinds fail.
    await assert.rejects(client.semaphore('s', 2).acquire(), failed);
    await assert.rejects(client.readWriteLock('r').read.lock(), failed);
    // A call can override the setting.
    await assert.rejects(client.lock('b').lock({ onUnavailable: 'fail' }), failed);

    const next = client.lock('a').lock();
    await server.restart();
    await untilClosed(client);
    assert.equal(await server.store.exists('a'), 0);
    // The degraded lease excludes other callers of this client until it is released.
    assert.equal(await client.lock('a').tryLock(), null);
    assert.equal(await here.release(), 'released');
    const there = await next;
    assert.deepEqual([there.degraded, typeof there.token], [false, 'number']);
    assert.equal(await server.store.exists('a'), 1);
    assert.equal(await there.release(), 'released');
  });

  it('a lock is skipped by each call until the server is back', async () => {
    await using client = await quick({ onUnavailable: 'skip' });
    const lock = client.lock('a');
    const semaphore = client.semaphore('s', 2);
    const { read, write } = client.readWriteLock('r');
    const all = client.multiLock([lock, semaphore]);
    const notRun = () => assert.fail('it ran');
    server.pause();
    await untilOpen(client);
    for (const one of [lock, client.mutex('m'), client.fairLock('f'), read, write, all]) {
      await assert.rejects(one.lock(), skipped);
      await assert.rejects(one.lock({ waitMs: SOON_MS }), skipped);
      assert.equal(await one.tryLock(), null);
      assert.equal(await one.tryLock({ waitMs: SOON_MS }), null);
      assert.equal(await client.using(one, notRun), undefined);
    }
    await assert.rejects(semaphore.acquire(2), skipped);
    assert.equal(await semaphore.tryAcquire(2), null);
    assert.equal(await client.using(semaphore, notRun), undefined);
    assert.equal(await client.using('a', notRun), undefined);
    assert.equal(await client.using('a', { waitMs: SOON_MS, onUnavailable: 'skip' }, notRun), undefined);
    // The reason of an abort is thrown unchanged, even if it is a skipped error.
    const reason = await lock.lock().catch((error) => error);
    await assert.rejects(client.using('a', { signal: AbortSignal.abort(reason) }, notRun), reason);
    // A query is not skipped either, and a call can override the setting.
    await assert.rejects(lock.isLocked(), failed);
    await assert.rejects(lock.lock({ onUnavailable: 'fail' }), failed);
    await assert.rejects(client.using('a', { onUnavailable: 'fail' }, notRun), failed);
    assert.equal((await lock.lock({ onUnavailable: 'local' })).degraded, true);
    server.resume();
    await untilClosed(client);
    assert.equal(await client.using('b', () => 42), 42);
  });

  it('waiters are skipped when the circuit breaker opens', async () => {
    await using client = await quick();
    await using other = await connect(server.url);
    const held = await other.lock('a').lock();
    const lock = client.lock('a', { onUnavailable: 'skip' });
    const waiting = [lock.lock(), lock.tryLock({ waitMs: 600_000 }), client.using(lock, () => assert.fail('it ran'))];
    const settled = Promise.allSettled(waiting);
    // The calls wait now: the server has refused the first of them.
    await eventually(SOON_MS, async () => (await server.scriptCalls()) >= 2);
    server.pause();
    await untilOpen(client);
    const [thrown, none, scope] = (await settled) as [
      PromiseRejectedResult,
      PromiseFulfilledResult<null>,
      PromiseFulfilledResult<undefined>,
    ];
    assert.ok(skipped(thrown.reason), `${thrown.reason}`);
    assert.deepEqual([none.value, scope.value], [null, undefined]);
    server.resume();
    await held.release();
    await untilClosed(client);
    assert.equal(await client.using(lock, () => 42), 42);
  });

  it('an error of the body is thrown, even if an acquisition in the body is skipped', async () => {
    await using client = await quick({ onUnavailable: 'local' });
    server.pause();
    await untilOpen(client);
    const inner = (lease: Lease) => {
      assert.ok(lease.degraded);
      return client.lock('inner').lock({ onUnavailable: 'skip' });
    };
    await assert.rejects(client.using('outer', inner), skipped);
    server.resume();
  });
});

describe('onUnavailable', () => {
  it('is one of the three policies of the core', async () => {
    const { native } = createRequire(__filename)(join(__dirname, '..', '..', 'dist', 'native.js'));
    assert.deepEqual(native.vocabulary().policies, POLICIES);
    await using client = await connect('memory://', { breakerPauseMs: 400 });
    const refused = {
      name: 'InvalidArgumentError',
      message: /^onUnavailable must be one of 'fail', 'local', 'skip', not /,
    };
    for (const word of ['', 'Skip', 'wait', 'toString', null, 5, true, {}, ['skip']]) {
      const options = { onUnavailable: word as OnUnavailable };
      await assert.rejects(connect('memory://', options), { ...refused, operation: 'connect' }, `${word}`);
      await assert.rejects(redlock(['memory://a'], options), refused, `${word}`);
      await assert.rejects(client.lock('a').lock(options), { ...refused, operation: 'acquire' }, `${word}`);
      await assert.rejects(client.lock('a').tryLock(options), refused, `${word}`);
      await assert.rejects(client.semaphore('s', 1).acquire(1, options), refused, `${word}`);
      await assert.rejects(
        client.using('a', options, () => assert.fail('it ran')),
        refused,
        `${word}`,
      );
      assert.throws(() => client.lock('a', options), refused, `${word}`);
      assert.throws(() => client.semaphore('s', 1, options), refused, `${word}`);
    }
    for (const onUnavailable of POLICIES) {
      const lease = await client.lock('a').lock({ onUnavailable });
      assert.equal(lease.degraded, false);
      await lease.release();
    }
  });

  it('needs a circuit breaker, which any of three options switches on', async () => {
    await using plain = await connect('memory://');
    for (const onUnavailable of POLICIES) {
      for (const call of [
        plain.lock('a').lock({ onUnavailable }),
        plain.lock('a', { onUnavailable }).tryLock(),
        plain.using('a', { onUnavailable }, () => assert.fail('it ran')),
      ]) {
        await assert.rejects(call, (error) => error instanceof InvalidArgumentError && !error.skipped);
      }
    }
    for (const options of [{ onUnavailable: 'fail' }, { breakerFailures: 1_000_000 }, { breakerPauseMs: 1 }] as const) {
      await using client = await connect('memory://', options);
      assert.equal(await client.using('a', { onUnavailable: 'skip' }, () => 42), 42);
    }
  });

  it('checks the ranges of its numbers', async () => {
    for (const breakerFailures of [0, -1, 1.5, 1_000_001, 2 ** 32 + 1, Number.NaN, Number.POSITIVE_INFINITY]) {
      await assert.rejects(connect('memory://', { breakerFailures }), InvalidArgumentError, `${breakerFailures}`);
    }
    for (const breakerPauseMs of [0, -1, Number.NaN, Number.POSITIVE_INFINITY]) {
      await assert.rejects(connect('memory://', { breakerPauseMs }), InvalidArgumentError, `${breakerPauseMs}`);
    }
    for (const value of ['5', null, true, {}, 5n]) {
      for (const option of ['breakerFailures', 'breakerPauseMs']) {
        const refused = { name: 'InvalidArgumentError', message: new RegExp(`^${option} must be a`) };
        await assert.rejects(connect('memory://', { [option]: value }), refused, `${option} ${value}`);
      }
    }
  });

  it('never grants a RedLock without a majority', async () => {
    const urls = ['memory://outage-a', 'memory://outage-b', 'memory://outage-c'];
    await assert.rejects(redlock(urls, { onUnavailable: 'local' }), InvalidArgumentError);
    await using client = await redlock(urls, { onUnavailable: 'skip' });
    await assert.rejects(client.lock('a').lock({ onUnavailable: 'local' }), InvalidArgumentError);
    assert.equal(await client.using('a', () => 42), 42);
  });
});

// Tests of clients that the program has dropped: they are freed, and a client that holds a lock warns.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { ClosedError, connect, redlock, UnavailableError } from 'steadlock';
import { collectGarbage, nativeClients, residentMemory, threads } from './garbage.js';
import { eventually, RedisServer, unusedPort } from './server.js';

const MANY = 1_000;
const AT_ONCE = 25;
const MIB = 2 ** 20;

/** Runs `what` many times, several at once, and checks that no client, thread or memory is left. */
async function assertNoLeak(what: () => Promise<void>): Promise<void> {
  const batch = () => Promise.all(Array.from({ length: AT_ONCE }, what));
  const rounds = MANY / AT_ONCE;
  // Warms up until the allocators do not need more memory.
  for (let round = 0; round < 3 * rounds; round += 1) await batch();
  await eventually(20_000, () => nativeClients().left === 0);
  const before = { opened: nativeClients().opened, threads: threads(), memory: residentMemory() };
  for (let round = 0; round < rounds; round += 1) await batch();
  await eventually(20_000, () => nativeClients().left === 0 && threads() <= before.threads);
  assert.ok(nativeClients().opened >= before.opened + MANY);
  const grownMib = (residentMemory() - before.memory) / MIB;
  // A client needs about 100 kB, so leaked clients of these rounds would exceed this limit.
  assert.ok(grownMib < 16, `${grownMib.toFixed(1)} MiB more`);
}

interface Warning {
  readonly name: string;
  readonly code: string | undefined;
  readonly message: string;
}

/** Collects Node's warnings until the end of the block. */
function collectWarnings(): { warnings: Warning[] } & Disposable {
  const warnings: Warning[] = [];
  // Copies the fields instead of the error: an error keeps the objects on its stack alive until the stack is read.
  const onWarning = ({ name, message, ...more }: Error & { code?: string }) => {
    warnings.push({ name, message, code: more.code });
  };
  process.on('warning', onWarning);
  return { warnings, [Symbol.dispose]: () => void process.off('warning', onWarning) };
}

describe('a client', () => {
  it('is freed when it could not connect', async () => {
    const url = `redis://127.0.0.1:${await unusedPort()}`;
    await assertNoLeak(() => assert.rejects(connect(url, { connectTimeoutMs: 10 }), UnavailableError));
  });

  it('is freed after it was closed, even if it held a lock', async () => {
    await using server = await RedisServer.start();
    let number = 0;
    await assertNoLeak(async () => {
      const client = await connect(server.url);
      number += 1;
      await client.lock(`held-${number % AT_ONCE}`).tryLock({ leaseMs: 1_000 });
      await client.close();
    });
  });

  it('that was closed still answers calls', async () => {
    const client = await connect('memory://');
    const lock = client.lock('kept');
    await lock.lock();
    await client.close();
    for (let round = 0; round < 5; round += 1) {
      collectGarbage();
      await assert.rejects(lock.lock(), ClosedError);
      const { signal } = new AbortController();
      await assert.rejects(lock.lock({ signal }), ClosedError);
      await assert.rejects(lock.isLocked(), ClosedError);
    }
  });

  it('is freed if it was dropped and holds nothing', async () => {
    await using server = await RedisServer.start();
    using collected = collectWarnings();
    const drop = async () => {
      const client = await connect(server.url);
      await (await client.lock('idle').lock()).release();
      // This lease expires and needs no release.
      await client.lock('expires').tryLock({ leaseMs: 100, waitMs: 20_000 });
    };
    for (let round = 0; round < 5; round += 1) await drop();
    // A garbage collection before the engine has noticed the expiry would warn, so this time is long.
    await sleep(2_000);
    await eventually(10_000, () => nativeClients().left === 0);
    // The one line that is left is the test's own connection.
    await eventually(10_000, async () => /^[^\n]*\n?$/.test(String(await server.store.client('LIST'))));
    assert.deepEqual(collected.warnings, []);
  });

  it('that was dropped while it holds a lock warns once and keeps it', async () => {
    await using server = await RedisServer.start();
    using collected = collectWarnings();
    const drop = async () => {
      const client = await connect(server.url, { leaseMs: 3_000 });
      await client.lock('forgotten').lock();
      await client.semaphore('seats', 3).acquire(2);
      await (await client.lock('released').lock()).release();
    };
    await drop();
    await eventually(10_000, () => {
      collectGarbage();
      return collected.warnings.length > 0;
    });
    const [warning] = collected.warnings;
    assert.equal(warning?.name, 'SteadlockWarning');
    assert.equal(warning?.code, 'STEADLOCK_CLIENT_DROPPED');
    assert.match(warning?.message ?? '', /dropped while it held 2 locks, which stay held/);
    // Garbage collection releases nothing: the lock is still renewed.
    let leftMs = await server.store.pttl('forgotten');
    await eventually(20_000, async () => {
      collectGarbage();
      const beforeMs = leftMs;
      leftMs = await server.store.pttl('forgotten');
      return leftMs > beforeMs;
    });
    assert.equal(collected.warnings.length, 1);
    assert.equal(nativeClients().left, 1);
    // After the loss of its locks the client is freed.
    await server.store.flushall();
    await eventually(10_000, () => nativeClients().left === 0);
    assert.equal(collected.warnings.length, 1);
  });

  it('is not freed while a lock, a lease or a pending call refers to it', async () => {
    await using server = await RedisServer.start();
    using collected = collectWarnings();
    const open = () => connect(server.url);
    const lock = await open().then((client) => client.lock('lock'));
    const lease = await open().then((client) => client.lock('lease').lock());
    const waiting = open().then((client) => client.lock('lease').lock());
    const primaries = ['memory://dropped-1', 'memory://dropped-2', 'memory://dropped-3'];
    const byQuorum = await redlock(primaries).then((client) => client.lock('quorum').lock());
    for (let round = 0; round < 5; round += 1) {
      await sleep(20);
      collectGarbage();
    }
    assert.equal(await (await lock.lock()).release(), 'released');
    assert.equal(await byQuorum.release(), 'released');
    assert.equal(await lease.release(), 'released');
    assert.equal(await (await waiting).release(), 'released');
    assert.deepEqual(collected.warnings, []);
  });

  it('that was dropped still aborts the signal of its lease', async () => {
    await using client = await connect('memory://');
    const keep = async () => (await client.lock('signal').lock({ leaseMs: 300 })).signal;
    const drop = async () => (await (await connect('memory://')).lock('signal').lock({ leaseMs: 300 })).signal;
    const signals = [await keep(), await drop()];
    collectGarbage();
    await eventually(5_000, () => signals.every(({ aborted }) => aborted));
  });
});

// Tests of aborts: the promise rejects at once, and nothing stays on the server.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { type Client, connect, InvalidArgumentError } from 'steadlock';
import { eventually, RedisServer } from './server.js';

type Listener = () => void;

/** A signal like those of polyfills, DOM emulators and other realms: not of Node's class. */
class ForeignSignal {
  aborted = false;
  reason: unknown;
  readonly listeners = new Set<Listener>();

  addEventListener(type: string, listener: Listener): void {
    if (type === 'abort') this.listeners.add(listener);
  }

  removeEventListener(_type: string, listener: Listener): void {
    this.listeners.delete(listener);
  }

  abort(reason?: unknown): void {
    this.aborted = true;
    this.reason = reason;
    for (const listener of this.listeners) listener();
  }

  /** This object with the type of a signal. */
  get signal(): AbortSignal {
    return this as never;
  }
}

describe('an aborted acquisition', () => {
  let server: RedisServer;
  let client: Client;

  beforeEach(async () => {
    server = await RedisServer.start();
    client = await connect(server.url);
  });

  afterEach(async () => {
    await client.close();
    await server[Symbol.asyncDispose]();
  });

  it('of a writer does not keep readers out any longer', async () => {
    const { write } = client.readWriteLock('pages');
    const held = await write.lock({ leaseMs: 3_600_000 });
    await using other = await connect(server.url);
    const controller = new AbortController();
    const waiting = other.readWriteLock('pages').write.lock({ signal: controller.signal });
    await eventually(5_000, () => server.store.hexists('steadlock:{pages}:rw', 'mark'));
    controller.abort();
    await assert.rejects(waiting);
    await held.release();
    for (const key of await server.keys()) {
      if (!key.endsWith(':token')) assert.ok((await server.store.pttl(key)) <= 4_000, key);
    }
    await (await write.lock()).release();
  });

  it('by a throwing signal ends, and others in its batch are answered', async () => {
    class Throwing extends ForeignSignal {
      override removeEventListener(): void {
        throw new Error('not implemented');
      }
    }
    const lock = client.lock('odd', { leaseMs: 20_000 });
    const given = new Throwing();
    const leases = await Promise.all([lock.lock({ signal: given.signal }), client.lock('even').lock()]);
    given.abort();
    for (const lease of leases) assert.equal(await lease.release(), 'released');
    const held = await lock.lock();
    await using other = await connect(server.url);
    const unreadable = new ForeignSignal();
    const waiting = other.lock('odd').lock({ signal: unreadable.signal });
    await eventually(5_000, () => unreadable.listeners.size === 1);
    Object.defineProperty(unreadable, 'reason', {
      get() {
        throw new Error('no reason');
      },
      set() {},
    });
    unreadable.abort();
    await assert.rejects(waiting, /no reason/);
    await held.release();
  });

  it('is not sent if the signal has aborted already', async () => {
    const calls = await server.scriptCalls();
    const reason = new Error('changed my mind');
    await assert.rejects(client.lock('a').lock({ signal: AbortSignal.abort(reason) }), (error) => error === reason);
    // The server answers a client's calls in order, so it would have counted an attempt before this call.
    assert.equal(await client.lock('a').isLocked(), false);
    assert.equal(await server.scriptCalls(), calls + 1);
  });

  it('rejects with the reason while it waits, and the next waiter is granted', async () => {
    const lease = await client.lock('a').lock();
    const controller = new AbortController();
    const aborted = client.lock('a').lock({ signal: controller.signal });
    const next = client.lock('a').lock();
    // The server answers a client's calls in order, so the attempt was refused before this reply.
    assert.equal(await client.lock('a').isLocked(), true);
    controller.abort('enough');
    await assert.rejects(aborted, (reason) => reason === 'enough');
    await lease.release();
    await (await next).release();
    assert.equal(await server.store.exists('a'), 0);
  });

  it('rejects with the TimeoutError of AbortSignal.timeout()', async () => {
    const lease = await client.lock('a').lock();
    await assert.rejects(client.lock('a').lock({ signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' });
    await assert.rejects(client.lock('a').tryLock({ waitMs: 5_000, signal: AbortSignal.timeout(20) }), {
      name: 'TimeoutError',
    });
    await lease.release();
  });

  it('leaves no key while the reply is in flight', async () => {
    // The server receives script calls, but runs none before UNPAUSE.
    await server.store.client('PAUSE', 20_000, 'WRITE');
    const controller = new AbortController();
    const aborted = client.lock('a').lock({ signal: controller.signal });
    await eventually(5_000, async () => / flags=b /.test(String(await server.store.client('LIST'))));
    controller.abort('enough');
    await assert.rejects(aborted, (reason) => reason === 'enough');
    await server.store.client('UNPAUSE');
    // The aborted request and its compensating release reach the server before this request.
    const lease = await client.lock('a').lock({ waitMs: 2_000 });
    await lease.release();
    assert.equal(await server.store.exists('a'), 0);
  });

  it('leaves no key at any point of the abort', async () => {
    const outcomes = new Set<string>();
    for (let round = 0; round < 300; round++) {
      const controller = new AbortController();
      const name = `point-${round % 7}`;
      const attempt = client.lock(name).lock({ signal: controller.signal });
      const settled = attempt.then(
        async (lease) => {
          outcomes.add('granted');
          await lease.release();
        },
        () => outcomes.add('aborted'),
      );
      for (let turns = round % 5; turns > 0; turns--) await turn();
      if (round % 3 === 0) await sleep(Math.random());
      controller.abort();
      await settled;
    }
    assert.deepEqual([...outcomes].sort(), ['aborted', 'granted']);
    await eventually(20_000, async () => (await server.store.keys('point-*')).length === 0);
  });

  it('accepts any object with the shape of a signal', async () => {
    const lease = await client.lock('a').lock();
    const foreign = new ForeignSignal();
    const aborted = client.lock('a').lock({ signal: foreign.signal });
    await turn();
    assert.equal(foreign.listeners.size, 1);
    foreign.abort('enough');
    await assert.rejects(aborted, (reason) => reason === 'enough');
    // The server has counted the aborted attempt when it answers this call.
    assert.equal(await client.lock('a').isLocked(), true);
    // Signals that have aborted already; the first is from a polyfill without reasons.
    const old = new ForeignSignal();
    old.abort();
    const calls = await server.scriptCalls();
    await assert.rejects(client.lock('a').tryLock({ signal: old.signal }), { name: 'AbortError' });
    await assert.rejects(client.semaphore('s', 1).acquire(1, { signal: foreign.signal }), (why) => why === 'enough');
    assert.equal(await client.lock('a').isLocked(), true);
    assert.equal(await server.scriptCalls(), calls + 1);
    await lease.release();
    const quiet = new ForeignSignal();
    await client.using('a', { signal: quiet.signal }, (held) => assert.ok(held.isValid));
    assert.equal(quiet.listeners.size, 0);
    for (const value of [{}, { aborted: false }, new EventTarget(), new AbortController(), () => {}]) {
      await assert.rejects(client.lock('a').lock({ signal: value as never }), InvalidArgumentError);
    }
  });

  it('removes its listener from a long-lived signal', async () => {
    const { signal } = new AbortController();
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on('warning', onWarning);
    for (let call = 0; call < 50; call++) {
      await (await client.lock('a').lock({ signal })).release();
    }
    await turn();
    process.off('warning', onWarning);
    assert.deepEqual(warnings, []);
  });

  it('can share one signal with many waits', async () => {
    const lease = await client.lock('a').lock();
    const ending = new AbortController();
    const warnings: Error[] = [];
    const onWarning = (warning: Error) => warnings.push(warning);
    process.on('warning', onWarning);
    const waits = Array.from({ length: 30 }, () => client.lock('a').lock({ signal: ending.signal }));
    const granted = client.lock('b').lock({ signal: ending.signal });
    await (await granted).release();
    await turn();
    process.off('warning', onWarning);
    ending.abort('the program ends');
    for (const wait of waits) await assert.rejects(wait, (reason) => reason === 'the program ends');
    assert.deepEqual(warnings, []);
    await lease.release();
    await eventually(20_000, async () => (await server.store.keys('a')).length === 0);
  });
});

// Tests of the program's code that runs during our code: it aborts, throws, closes the client, or runs the event loop.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { type Client, connect, type LockOptions } from 'steadlock';
import { run } from './run.js';

type Native = typeof import('../dist/native');
const { native } = createRequire(require.resolve('steadlock'))('./native.js') as Native;

/** Blocks the thread, so that time passes and JavaScript handles no event. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}

/** Waits for a promise and keeps the process alive meanwhile, because a held lease does not. */
async function keepAlive<T>(promise: Promise<T>): Promise<T> {
  const alive = setInterval(() => {}, 1_000);
  try {
    return await promise;
  } finally {
    clearInterval(alive);
  }
}

/** Returns how many callers wait for a lock, by the client's metrics. */
function waiting(client: Client): number {
  const counts = client.metrics().matchAll(/^steadlock_waiting\{.*\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

describe('program code that runs during an acquisition', () => {
  let client: Client;

  beforeEach(async () => {
    client = await connect('memory://', { metrics: true });
  });

  afterEach(() => client.close());

  it('can abort it while its options are read', async () => {
    const held = await client.lock('a').lock();
    const controller = new AbortController();
    const remainingMs = () => {
      controller.abort('enough');
      return 3_600_000;
    };
    await assert.rejects(client.lock('a').lock({ signal: controller.signal, remainingMs }), (why) => why === 'enough');
    await held.release();
    await (await client.lock('a').lock({ waitMs: 10_000 })).release();
  });

  it('can abort it in addEventListener', async () => {
    const held = await client.lock('a').lock();
    const controller = new AbortController();
    const { signal } = controller;
    const listen = signal.addEventListener.bind(signal);
    signal.addEventListener = ((...args: Parameters<typeof listen>) => {
      listen(...args);
      controller.abort('enough');
    }) as typeof listen;
    await assert.rejects(client.lock('a').lock({ signal }), (why) => why === 'enough');
    await held.release();
  });

  it('does not keep the process alive after an abort in addEventListener', async () => {
    const { code, output, errors } = await run(
      `
        import { connect } from 'steadlock';
        const client = await connect('memory://');
        await client.lock('a').lock();
        const controller = new AbortController();
        const { signal } = controller;
        const listen = signal.addEventListener.bind(signal);
        signal.addEventListener = (...args) => {
          listen(...args);
          controller.abort('enough');
        };
        console.log(await client.lock('a').lock({ signal }).catch((why) => why));
        setTimeout(() => process.exit(3), 10_000).unref();
      `,
      'memory://',
    );
    assert.deepEqual([code, output.trim()], [0, 'enough'], errors);
  });

  it('leaves no waiter if addEventListener throws', async () => {
    const held = await client.lock('a').lock();
    const { signal } = new AbortController();
    signal.addEventListener = () => {
      throw new Error('not implemented');
    };
    await assert.rejects(client.lock('a').lock({ signal }), /not implemented/);
    // The client counts the cancelled request before the next reply comes.
    await client.lock('a').isLocked();
    assert.equal(waiting(client), 0);
    await held.release();
  });

  it('is asked for each option once', async () => {
    let reads = 0;
    const options = {
      get waitMs() {
        reads += 1;
        return reads === 1 ? 0 : ('soon' as unknown as number);
      },
    };
    await (await client.lock('a').lock(options)).release();
    assert.equal(reads, 1);
    reads = 0;
    await (await client.lock('b', options).lock()).release();
    assert.equal(reads, 1);
  });

  it('can throw while options are read, and nothing is sent', async () => {
    const broken = new Proxy({} as LockOptions, {
      get() {
        void client.lock('b').tryLock();
        throw new Error('a broken option');
      },
    });
    await assert.rejects(client.lock('a').lock(broken as never), /a broken option/);
    assert.throws(() => client.lock('a', broken), /a broken option/);
    assert.equal(await client.lock('a').isLocked(), false);
  });
});

describe('program code that handles a loss', () => {
  it('can call the client', async () => {
    const client = await connect('memory://');
    const results: unknown[] = [];
    const lease = await client.lock('a').lock({ leaseMs: 100 });
    const other = await client.lock('b').lock();
    const done = new Promise<void>((resolve) => {
      lease.signal.addEventListener('abort', () => {
        results.push(lease.isValid, lease.remainingMs);
        void Promise.all([other.release(), client.lock('c').lock(), lease.release()])
          .then(([outcome, , late]) => results.push(outcome, late))
          .then(() => client.close())
          .then(resolve);
      });
    });
    await keepAlive(done);
    assert.deepEqual(results, [false, 0, 'released', 'expired']);
  });

  it('loses no other answer of the batch if an AbortController throws', async () => {
    const before = globalThis.AbortController;
    class ThrowingController extends before {
      override abort(): void {
        throw new Error('a broken controller');
      }
    }
    const thrown: unknown[] = [];
    const note = (error: unknown) => thrown.push((error as Error).message);
    const others = process.listeners('uncaughtException');
    process.removeAllListeners('uncaughtException');
    process.on('uncaughtException', note);
    try {
      const client = await connect('memory://');
      const lease = await client.lock('a').lock();
      globalThis.AbortController = ThrowingController;
      assert.equal(lease.signal.aborted, false);
      await client.close();
      assert.equal(lease.lostReason, 'closed');
      await new Promise(setImmediate);
      assert.deepEqual(thrown, ['a broken controller']);
    } finally {
      globalThis.AbortController = before;
      process.off('uncaughtException', note);
      for (const listener of others) process.on('uncaughtException', listener);
    }
  });

  it('can run the event loop: each answer is handled once, in order', async () => {
    // Simulates nested event loops, such as those of Electron's dialogs.
    let turn = () => {};
    const open = native.open;
    native.open = (options, wake, opening) => {
      turn = wake;
      return open(options, wake, opening);
    };
    let client: Client;
    try {
      client = await connect('memory://');
    } finally {
      native.open = open;
    }
    const leases = await Promise.all(
      Array.from({ length: 8 }, (_, number) => client.lock(`expires-${number}`).lock({ leaseMs: 100 })),
    );
    const results: number[] = [];
    const answers: Promise<boolean>[] = [];
    leases.forEach((lease, number) => {
      lease.signal.addEventListener('abort', () => {
        results.push(number);
        for (let ask = 0; ask < 8; ask += 1) answers.push(client.lock('a').isLocked());
        block(20);
        turn();
      });
    });
    // All leases expire before JavaScript learns of the first loss.
    block(300);
    const last = leases.at(-1)?.signal;
    if (!last?.aborted) await keepAlive(new Promise((resolve) => last?.addEventListener('abort', resolve)));
    assert.deepEqual([...results].sort(), [0, 1, 2, 3, 4, 5, 6, 7]);
    const all = await Promise.all(answers);
    assert.deepEqual([all.length, all.includes(true)], [64, false]);
    const held = await client.lock('a').lock();
    assert.equal(await held.release(), 'released');
    await client.close();
  });

  it('can end the process, and held locks are released', async () => {
    const { code, output } = await run(
      `
        import { connect } from 'steadlock';
        const client = await connect();
        const other = await client.lock('kept').lock();
        const lease = await client.lock('a').lock({ leaseMs: 100 });
        lease.signal.addEventListener('abort', () => {
          void other.release();
          process.exit(7);
        });
        process.on('exit', (code) => {
          void client.close();
          console.log('left', code);
        });
        await client.lock('a').lock({ leaseMs: 100 });
      `,
      'memory://ends',
    );
    assert.deepEqual([code, output.trim()], [7, 'left 7']);
  });
});

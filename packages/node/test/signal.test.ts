// Tests of a lease's signal: the context of its listeners, its reason, and a program that only waits for it.

import assert from 'node:assert/strict';
import { AsyncLocalStorage } from 'node:async_hooks';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { connect, LockLostError } from 'steadlock';
import { run } from './run.js';
import { RedisServer } from './server.js';

describe('the signal of a lease', () => {
  let server: RedisServer;

  before(async () => {
    server = await RedisServer.start();
  });

  after(() => server[Symbol.asyncDispose]());

  it('calls its listeners in the context of the call', async () => {
    await using client = await connect('memory://');
    const requests = new AsyncLocalStorage<string>();
    const events = new Map<string, string | undefined>();
    const hold = (request: string) =>
      requests.run(request, async () => {
        const lease = await client.lock(request).lock({ leaseMs: 100 });
        lease.signal.addEventListener('abort', () => events.set(request, requests.getStore()));
        await once(lease.signal, 'abort');
        const late = await client.lock(request).lock();
        await late.release();
      });
    await Promise.all([hold('one'), hold('two')]);
    assert.deepEqual([...events].sort(), [
      ['one', 'one'],
      ['two', 'two'],
    ]);
  });

  it('has a reason with the operation hold', async () => {
    await using client = await connect('memory://');
    const lease = await client.lock('fixed').lock({ leaseMs: 100, waitMs: 20_000 });
    await once(lease.signal, 'abort');
    const { reason } = lease.signal;
    assert.ok(reason instanceof LockLostError);
    assert.equal(reason.operation, 'hold');
    assert.match(reason.message, /^hold of lock "fixed": the lease was lost: its fixed length passed/);
    await assert.rejects(lease.extend(), { operation: 'extend' });
  });

  it('does not abort if the release comes before the report of a loss', async () => {
    await using client = await connect('memory://');
    const lease = await client.lock('blocked').lock({ leaseMs: 100, waitMs: 20_000 });
    const { signal } = lease;
    // Blocks the thread, so that the event loop cannot report the loss.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 150);
    assert.equal(lease.isValid, false);
    await lease.release();
    // The report of the loss was queued before the answer to this call.
    assert.equal(await client.lock('blocked').isLocked(), false);
    assert.equal(signal.aborted, false);
  });

  it('keeps a program alive that awaits it at the top level', async () => {
    const program = `
      import { once } from 'node:events';
      import { connect } from 'steadlock';
      const client = await connect(undefined, { leaseMs: 3_000 });
      const lease = await client.lock('awaited').lock();
      console.log('held');
      await once(lease.signal, 'abort');
      console.log(lease.lostReason);
    `;
    let isRemoving = false;
    const ended = await run(program, server.url, (output) => {
      if (!output.includes('held') || isRemoving) return;
      isRemoving = true;
      // By this time a program that nothing keeps alive would have ended.
      setTimeout(() => server.store.del('awaited'), 1_000);
    });
    assert.deepEqual([ended.code, ended.output, ended.errors], [0, 'held\nremoved\n', '']);
  });

  it('does not keep a finished program alive', async () => {
    for (const end of ['', 'await new Promise((resolve) => setTimeout(resolve, 50));']) {
      const program = `
        import { connect } from 'steadlock';
        const client = await connect();
        const lease = await client.lock('done').lock();
        lease.signal.addEventListener('abort', () => console.log('lost'));
        ${end}
        console.log('done');
      `;
      const ended = await run(program, server.url);
      assert.deepEqual([ended.code, ended.output], [0, 'done\n']);
      assert.ok(ended.lingeredMs < 2_000, `${ended.lingeredMs} ms`);
    }
  });
});

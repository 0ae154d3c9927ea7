// Tests of scopes: `using()`, `await using`, and closing.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type Client, ClosedError, connect, InvalidArgumentError, type Lease, LockLostError } from 'steadlock';
import { RedisServer } from './server.js';

describe('a scope', () => {
  let server: RedisServer;
  let client: Client;

  before(async () => {
    server = await RedisServer.start();
    client = await connect(server.url, { leaseMs: 1_000 });
  });

  after(async () => {
    await client.close();
    await server[Symbol.asyncDispose]();
  });

  it('holds the lock while its body runs, and returns its result', async () => {
    const held = await client.using('body', async (lease, signal) => {
      assert.equal(signal, lease.signal);
      assert.equal(await server.store.exists('body'), 1);
      return lease.token;
    });
    assert.equal(typeof held, 'number');
    assert.equal(await server.store.exists('body'), 0);
  });

  it('throws the error of its body, even if the lease is lost', async () => {
    const mistake = new Error('mine');
    await assert.rejects(
      client.using('mistake', () => Promise.reject(mistake)),
      (error) => error === mistake,
    );
    assert.equal(await server.store.exists('mistake'), 0);
    await assert.rejects(
      client.using('mistake', async () => {
        await server.store.del('mistake');
        throw mistake;
      }),
      (error) => error === mistake,
    );
  });

  it('throws LockLostError if the lease was lost and the body succeeded', async () => {
    await assert.rejects(
      client.using('lost', async () => {
        await server.store.del('lost');
      }),
      (error) => {
        // The message is the core's: how the lease was lost, and what the program should do.
        assert.ok(error instanceof LockLostError, `${error}`);
        assert.deepEqual([error.operation, error.lockName, error.reason], ['release', 'lost', 'expired']);
        assert.equal(error.cause, 'its deadline passed, or its record was gone before that');
        assert.match(error.message, /^release of lock "lost": the lease was lost: its deadline passed, .*; check /);
        return true;
      },
    );
  });

  it('accepts the options of the lock and of the call', async () => {
    const options = { fencing: false, leaseMs: 5_000, waitMs: 0 };
    await client.using('options', options, async (lease) => {
      assert.equal(lease.token, null);
      assert.ok(lease.remainingMs > 4_000);
      await client.using('options', { within: lease }, (inner) => assert.ok(inner.isValid));
    });
    const signal = AbortSignal.abort('no');
    await assert.rejects(
      client.using('options', { signal }, () => assert.fail('it was aborted')),
      (reason) => reason === 'no',
    );
    await assert.rejects(client.using('options', 'body' as never), InvalidArgumentError);
  });

  it('refuses options after the body', async () => {
    const using = client.using.bind(client) as (...given: unknown[]) => Promise<unknown>;
    const never = () => assert.fail('it ran');
    for (const misplaced of [{ waitMs: 0 }, {}, null, never]) {
      await assert.rejects(using('options', never, misplaced), /the function of using comes last/);
    }
    assert.equal(await using('options', () => 1, undefined), 1);
  });

  it('ends with the block of an await using', async () => {
    {
      await using lease = await client.lock('block').lock();
      assert.ok(lease.isValid);
      assert.equal(await server.store.exists('block'), 1);
    }
    assert.equal(await server.store.exists('block'), 0);
    await assert.rejects(async () => {
      await using _lease = await client.lock('block').lock();
      await server.store.del('block');
    }, LockLostError);
  });

  it('closes a client at the end of its block', async () => {
    let lease: Lease;
    let waiting: Promise<unknown>;
    {
      await using short = await connect(server.url);
      lease = await short.lock('closing').lock();
      const lost = new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
      waiting = assert.rejects(short.lock('closing').lock(), ClosedError);
      const closed = Promise.all([short.close(), short.close()]);
      await lost;
      await closed;
      assert.equal(lease.lostReason, 'closed');
      assert.equal(lease.isValid, false);
      await assert.rejects(short.lock('later').lock(), ClosedError);
      await assert.rejects(short.lock('later').tryLock(), ClosedError);
      await assert.rejects(short.lock('later').isLocked(), ClosedError);
    }
    await waiting;
    assert.equal(await server.store.exists('closing'), 0);
  });
});

// Aborting: the promise rejects at once, and nothing stays behind on the server.

import assert from 'node:assert/strict';
import { afterEach, beforeEach, describe, it } from 'node:test';
import { setTimeout as sleep, setImmediate as turn } from 'node:timers/promises';
import { type Client, connect } from 'leasehold';
import { eventually, RedisServer } from './server.js';

describe('an acquisition that is aborted', () => {
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

  it('is not even sent when the signal has aborted already', async () => {
    const calls = await server.scriptCalls();
    const reason = new Error('changed my mind');
    await assert.rejects(client.lock('a').lock({ signal: AbortSignal.abort(reason) }), (error) => error === reason);
    assert.equal(await server.scriptCalls(), calls);
  });

  it('rejects with the reason while it waits, and the next waiter is granted', async () => {
    const lease = await client.lock('a').lock();
    const controller = new AbortController();
    const aborted = client.lock('a').lock({ signal: controller.signal });
    const next = client.lock('a').lock();
    await sleep(20);
    controller.abort('enough');
    await assert.rejects(aborted, (reason) => reason === 'enough');
    await lease.release();
    await (await next).release();
    assert.equal(await server.store.exists('a'), 0);
  });

  it('gives a DOMException of its own when no reason was given', async () => {
    const lease = await client.lock('a').lock();
    await assert.rejects(client.lock('a').lock({ signal: AbortSignal.timeout(20) }), { name: 'TimeoutError' });
    await assert.rejects(client.lock('a').tryLock({ waitMs: 5_000, signal: AbortSignal.timeout(20) }), {
      name: 'TimeoutError',
    });
    await lease.release();
  });

  it('leaves no key behind while the reply is in flight', async () => {
    server.pause();
    const controller = new AbortController();
    const aborted = client.lock('a').lock({ signal: controller.signal });
    await sleep(50);
    controller.abort('enough');
    await assert.rejects(aborted, (reason) => reason === 'enough');
    server.resume();
    // The request and its compensation are in order before this one.
    const lease = await client.lock('a').lock({ waitMs: 2_000 });
    await lease.release();
    assert.equal(await server.store.exists('a'), 0);
  });

  it('leaves no key behind at whatever point it is aborted', async () => {
    const outcomes = new Set<string>();
    for (let round = 0; round < 300; round++) {
      const controller = new AbortController();
      const name = `point-${round % 7}`;
      const asked = client.lock(name).lock({ signal: controller.signal });
      const settled = asked.then(
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
    await eventually(1_000, async () => (await server.store.keys('point-*')).length === 0);
  });

  it('frees the listeners of a signal that outlives many calls', async () => {
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
});

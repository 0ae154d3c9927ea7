// Tests that a client has no open handle after `close()`. Test runners search for open handles with `async_hooks`.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { run } from './run.js';
import { RedisServer } from './server.js';

/** The resources that Jest does not count, and resources that end by themselves. */
const PASSED_OVER = ['PROMISE', 'TIMERWRAP', 'Immediate', 'TickObject', 'Microtask', 'RANDOMBYTESREQUEST'];

const LOOK = `
  import { createHook } from 'node:async_hooks';
  import { setTimeout as sleep } from 'node:timers/promises';
  import { connect } from 'steadlock';

  const passedOver = new Set(${JSON.stringify(PASSED_OVER)});
  const open = new Map();
  const hook = createHook({
    init(id, type, _trigger, resource) {
      if (!passedOver.has(type)) open.set(id, { type, isOpen: () => resource.hasRef?.() ?? true });
    },
    destroy(id) {
      open.delete(id);
    },
  }).enable();
`;

describe('a closed client', () => {
  let server: RedisServer;

  before(async () => {
    server = await RedisServer.start();
  });

  after(() => server[Symbol.asyncDispose]());

  it('has no open handle, and still answers', async () => {
    const program = `${LOOK}
      const client = await connect();
      client.events.on('lost', () => {});
      const held = await client.lock('held').lock();
      held.signal.addEventListener('abort', () => {});
      await client.using('a', () => client.lock('b').isLocked());
      const closing = client.close();
      const late = await client.lock('late').lock().catch(({ name }) => name);
      await closing;
      const left = () => [...open.values()].filter(({ isOpen }) => isOpen()).map(({ type }) => type);
      const pause = async () => {
        await sleep(100);
        // The timer itself has ended, too.
        await new Promise((resolve) => setImmediate(resolve));
      };
      await pause();
      const leftSoon = left().filter((type) => type !== 'napi_rs_threadsafe_function');
      // The engine's thread closes the handle of that type, which can take long on a busy machine.
      for (const end = performance.now() + 20_000; left().length > 0 && performance.now() < end; ) await pause();
      hook.disable();
      const after = await client.lock('after').lock().catch(({ name }) => name);
      console.log(JSON.stringify([[...leftSoon, ...left()], late, await held.release(), after]));
    `;
    const ended = await run(program, server.url);
    assert.equal(ended.errors, '');
    assert.deepEqual(JSON.parse(ended.output), [[], 'ClosedError', 'released', 'ClosedError']);
  });
});

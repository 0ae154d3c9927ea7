// Tests of `addressMap`, with a node that announces an address without a server. `core/client/tests/addresses` tests
// the rest.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { type ConnectOptions, connect, InvalidArgumentError, redlock, UnavailableError } from 'steadlock';
import { run } from './run.js';
import { eventually, freePort, RedisServer } from './server.js';

const ANNOUNCED = '10.255.0.1:7000';

describe('a cluster whose node announces another address', () => {
  let node: RedisServer;
  let here: string;

  before(async () => {
    const announced = ['--cluster-announce-ip', '10.255.0.1', '--cluster-announce-port', '7000'];
    const bus = ['--cluster-port', `${await freePort()}`];
    node = await RedisServer.start('--cluster-enabled', 'yes', ...bus, ...announced);
    here = new URL(node.url).host;
    await node.store.cluster('ADDSLOTS', ...Array.from({ length: 16_384 }, (_, slot) => slot));
    await eventually(30_000, async () => (await node.store.cluster('INFO')).startsWith('cluster_state:ok'));
  });

  after(async () => {
    await node[Symbol.asyncDispose]();
  });

  async function works(addressMap: ConnectOptions['addressMap'], waitMs = 10_000): Promise<void> {
    // Connecting must time out before the wait does, so that the error has the cause of the failed connection.
    const client = await connect(`redis+cluster://${here}`, { addressMap, connectTimeoutMs: waitMs / 2 });
    try {
      const lease = await client.lock('a').lock({ waitMs });
      assert.equal(await lease.release(), 'released');
    } finally {
      await client.close();
    }
  }

  it('is reached by a table', async () => {
    await works({ [ANNOUNCED]: here });
    await works(new Map([[ANNOUNCED, here]]));
    await assert.rejects(works(undefined, 4_000), UnavailableError);
  });

  it('is reached by a function', async () => {
    const requested = new Set<string>();
    await works((announced) => {
      requested.add(announced);
      return here;
    });
    assert.deepEqual([...requested], [ANNOUNCED]);
  });

  it('does not keep the threads of a worker that is terminated during the call', async () => {
    const program = `
      const { workerData } = require('node:worker_threads');
      const { connect } = require('steadlock');
      connect(workerData.url, { addressMap: () => workerData.here, lazy: true }).then((client) => {
        client.lock('a').lock();
        // Blocks the thread, so that nothing answers the client any more.
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
      });`;
    const ended = await run(
      `import { readdirSync, readFileSync } from 'node:fs';
      import { setTimeout as sleep } from 'node:timers/promises';
      import { Worker } from 'node:worker_threads';
      const blocked = () =>
        readdirSync('/proc/self/task').filter((id) => {
          try {
            return readFileSync('/proc/self/task/' + id + '/comm', 'utf8').startsWith('steadlock-block');
          } catch {
            return false;
          }
        }).length;
      const workerData = { url: process.env.STEADLOCK_URL, here: '${here}' };
      const worker = new Worker(${JSON.stringify(program)}, { eval: true, workerData, execArgv: [] });
      while (blocked() === 0) await sleep(2);
      await worker.terminate();
      const limit = performance.now() + 5_000;
      while (blocked() > 0 && performance.now() < limit) await sleep(2);
      console.log('left', blocked());
      process.exit();`,
      `redis+cluster://${here}`,
    );
    assert.deepEqual(ended, { ...ended, code: 0, output: 'left 0\n', errors: '' });
  });

  for (const [what, addressMap, cause] of [
    ['throws', () => assert.fail('hunter2'), /it threw AssertionError/],
    ['throws an error whose name is a symbol', () => raise({ value: Symbol('odd') }), /it threw Symbol\(odd\)/],
    ['throws an error whose name throws', () => raise({ get: () => assert.fail('hunter2') }), /it threw an error/],
    ['gives no address', () => 'hunter2@h', /no address/],
    ['gives no string', () => 7 as unknown as string, /neither a string nor null/],
    ['returns null, which keeps the announced address', () => null, /10\.255\.0\.1:7000/],
  ] as const) {
    it(`is not reached by a function that ${what}`, async () => {
      await assert.rejects(works(addressMap, 4_000), (error: Error) => {
        assert.ok(error instanceof UnavailableError);
        assert.match(error.message, cause);
        assert.doesNotMatch(error.message, /hunter2/);
        return true;
      });
    });
  }
});

/** Throws an error with an unusual `name`. */
function raise(name: PropertyDescriptor): never {
  throw Object.defineProperty(new Error('hunter2'), 'name', name);
}

describe('an invalid address map', () => {
  const url = 'redis+cluster://127.0.0.1:1';

  it('is an invalid argument', async () => {
    for (const addressMap of [
      { '10.0.0.1': 'localhost:1' },
      { '': 'h:1' },
      { 'h:1': 'redis://h:1' },
      { 'h:1': 7 },
      new Map([[7, 'h:1']]),
      [['h:1', 'h:2']],
      'h:1',
      7,
      null,
    ]) {
      const options = { addressMap } as ConnectOptions;
      await assert.rejects(connect(url, options), InvalidArgumentError);
      await assert.rejects(redlock([url, `${url}1`, `${url}2`], options), InvalidArgumentError);
    }
    await assert.rejects(connect('memory://', { addressMap: { 'h:1': 'h:2' } }), InvalidArgumentError);
  });
});

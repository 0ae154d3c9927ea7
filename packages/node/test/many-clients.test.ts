// Tests of the cost of each client in a process: a thread, descriptors and memory. The README has these figures.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { describe, it } from 'node:test';
import { type Client, connect, UnavailableError } from 'steadlock';
import { residentMemory, threads } from './garbage.js';
import { eventually, RedisServer } from './server.js';

const MANY = 200;
const MIB = 2 ** 20;
/** The number of a client's connections. The client opens each when it needs it. */
const CONNECTIONS = 3;

interface Cost {
  readonly threads: number;
  readonly descriptors: number;
  readonly memoryMib: number;
}

function cost(): Cost {
  const descriptors = readdirSync('/proc/self/fd').length;
  return { threads: threads(), descriptors, memoryMib: residentMemory() / MIB };
}

/** Returns the difference between `before` and `after`, per client. */
function each(before: Cost, after: Cost): Cost {
  const of = (what: keyof Cost) => (after[what] - before[what]) / MANY;
  return { threads: of('threads'), descriptors: of('descriptors'), memoryMib: of('memoryMib') };
}

/** Acquires a lock and waits for it with a second call, so that the client uses all its connections. */
async function use(client: Client, name: string): Promise<void> {
  const lease = await client.lock(name).lock();
  const busy = client.lock(name).tryLock({ waitMs: 1 });
  // The first answer can come too late for this wait.
  await busy.catch((error) => assert.ok(error instanceof UnavailableError, `${error}`));
  await lease.release();
}

describe('many clients of a process', { skip: process.platform !== 'linux' && 'the test reads /proc' }, () => {
  it('need one thread, 8 descriptors and less than half a MiB each, and nothing after close', async (test) => {
    await using server = await RedisServer.start();
    // The first client creates the parts that all clients share.
    await using first = await connect(server.url);
    await use(first, 'first');
    const before = cost();
    const clients: Client[] = [];
    for (let number = 0; number < MANY; number += 1) {
      const client = await connect(server.url);
      clients.push(client);
      await use(client, `held-${number}`);
    }
    const open = cost();
    const one = each(before, open);
    test.diagnostic(`of ${MANY} clients each has ${JSON.stringify(one)}; in all ${JSON.stringify(open)}`);
    // The first client can have opened a connection meanwhile.
    assert.ok(Math.round(one.threads) <= 1, `${one.threads} threads`);
    assert.ok(Math.round(one.descriptors) <= 8, `${one.descriptors} descriptors`);
    assert.ok(one.memoryMib < 0.5, `${one.memoryMib} MiB`);
    await Promise.all(clients.map((client) => client.close()));
    await eventually(20_000, () => {
      const { threads, descriptors } = cost();
      return threads <= before.threads && descriptors <= before.descriptors + CONNECTIONS;
    });
  });
});

// Tests that the memory of a client does not grow with its past work.
//
// STEADLOCK_LONG=1 uses 100,000 names and 100,000 expired leases (`npm run test:long`).

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { run } from './run.js';
import { RedisServer } from './server.js';

const IS_LONG = process.env.STEADLOCK_LONG !== undefined;
const NAMES = IS_LONG ? 100_000 : 3_000;
const LEASES = IS_LONG ? 100_000 : 3_000;
const AT_ONCE = 500;

/**
 * The growth that still counts as flat, in MiB. A leak of 150 bytes for each of 3,000 names exceeds the limit for
 * JavaScript's heap. The limit for the process is higher, because its allocators keep pages.
 */
const FLAT = { heap: 0.4, resident: 24 };

/**
 * Runs `batch`, the text of a function, for `count` numbers and then for as many more, and checks that the second half
 * adds no memory. Runs in a process of its own, because the test runner keeps each promise of its process for a while.
 */
async function assertFlatMemory(count: number, batch: string): Promise<void> {
  await using server = await RedisServer.start();
  const ended = await run(
    `import { setFlagsFromString } from 'node:v8';
    import { runInNewContext } from 'node:vm';
    import { connect } from 'steadlock';
    setFlagsFromString('--expose-gc');
    const collectGarbage = runInNewContext('gc');
    const client = await connect();
    const batch = ${batch};
    for (const from of [0, ${count}]) {
      for (let first = from; first < from + ${count}; first += ${AT_ONCE}) {
        await batch(Array.from({ length: ${AT_ONCE} }, (_, at) => first + at));
      }
      collectGarbage();
      const { heapUsed, rss } = process.memoryUsage();
      console.log(JSON.stringify({ heap: heapUsed / 2 ** 20, resident: rss / 2 ** 20 }));
    }
    await client.close();`,
    server.url,
  );
  assert.equal(ended.errors, '');
  const [before, after] = ended.output
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line)) as [typeof FLAT, typeof FLAT];
  for (const what of ['heap', 'resident'] as const) {
    const report = `${what}: ${before[what].toFixed(1)} MiB, then ${after[what].toFixed(1)} MiB`;
    console.log(report);
    assert.ok(after[what] - before[what] < FLAT[what], report);
  }
}

describe('memory stays flat', () => {
  it(`over ${NAMES} names`, () =>
    assertFlatMemory(
      NAMES,
      `(numbers) => Promise.all(numbers.map(async (number) => {
        const lock = client.lock('name-' + number);
        await lock.unlock(await lock.lock());
      }))`,
    ));

  it(`over ${LEASES} leases that expired without a release`, () =>
    assertFlatMemory(
      LEASES,
      // Half of the leases come from one shared object, the others from an object each.
      `async (numbers) => {
        globalThis.seats ??= client.semaphore('seats', ${2 * AT_ONCE}, { leaseMs: 100 });
        const signals = await Promise.all(numbers.map(async (number) => {
          const lock = client.lock('expires-' + number, { leaseMs: 100, fencing: false });
          return (await (number % 2 ? seats.acquire() : lock.lock())).signal;
        }));
        while (!signals.every(({ aborted }) => aborted)) await new Promise((resolve) => setTimeout(resolve, 10));
      }`,
    ));
});

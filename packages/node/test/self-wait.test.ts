// Tests of a `using()` inside a `using()` of the same lock, which waits for itself.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Client, connect } from 'steadlock';

describe('a using() inside of a using()', () => {
  let client: Client;
  const warnings: Error[] = [];
  const collect = (warning: Error) => warnings.push(warning);

  before(async () => {
    client = await connect('memory://');
    process.on('warning', collect);
  });

  after(async () => {
    process.off('warning', collect);
    await client.close();
  });

  it('of the same lock causes one warning with both lines', async () => {
    const controller = new AbortController();
    const nested = () =>
      client.using('self', () =>
        client.using('self', { signal: controller.signal }, () => assert.fail('it was granted')),
      );
    const [first, second] = [nested(), nested()].map((one) => assert.rejects(one, { name: 'AbortError' }));
    const [warning] = (await once(process, 'warning')) as [Error & { code: string }];
    assert.equal(warning.code, 'STEADLOCK_SELF_WAIT');
    assert.match(warning.message, /lock "self".* pass the outer lease as `within`/);
    const places = [...warning.message.matchAll(/self-wait\.test\.[jt]s:(\d+:\d+)/g)].map(([, place]) => place);
    assert.equal(places.length, 2, warning.message);
    assert.notEqual(places[0], places[1], warning.message);
    controller.abort();
    await Promise.all([first, second]);
    assert.equal(warnings.length, 1);
  });

  it('causes no warning if it does not wait for itself', async () => {
    warnings.length = 0;
    await using other = await connect('memory://');
    const elsewhere = await client.lock('taken').lock();
    let end = () => {};
    const over = new Promise<void>((resolve) => {
      end = resolve;
    });
    let late: Promise<unknown> | undefined;
    await client.using('outer', async (lease) => {
      const waits = [
        client.using('taken', () => 'another lock'),
        other.using('outer', () => 'another client'),
        client.using('outer', { within: lease }, () => 'entered again'),
        client.using('outer', { waitMs: 1_200 }, () => 'it ends').catch(() => 'it ended'),
      ];
      // Runs in the context of the body, after the body has ended.
      late = over.then(() => client.using('outer', () => 'after the end'));
      await sleep(1_300);
      await elsewhere.release();
      await Promise.all(waits);
    });
    const next = await client.lock('outer').lock();
    end();
    await sleep(1_100);
    await next.release();
    assert.equal(await late, 'after the end');
    assert.deepEqual(warnings, []);
  });
});

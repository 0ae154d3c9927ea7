// Tests of the metrics of a client, in the format of Prometheus.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { type Client, connect, InvalidArgumentError, LockTimeoutError } from 'steadlock';
import { eventually, RedisServer } from './server.js';

/** Returns the sum of a metric's samples that have these labels. */
function number(client: Client, name: string, labels: Record<string, string> = {}): number {
  const wanted = Object.entries(labels).map(([label, value]) => `${label}="${value}"`);
  return client
    .metrics()
    .split('\n')
    .filter((line) => line.startsWith(`${name}{`) && wanted.every((label) => line.includes(label)))
    .map((line) => Number(line.slice(line.lastIndexOf(' '))))
    .reduce((sum, value) => sum + value, 0);
}

it('are counted, and can be read after close', async () => {
  const client = await connect('memory://', { metrics: true, keyPrefix: 'shop:' });
  const stock = { kind: 'lock', group: 'stock' };
  await client.using('stock:42', async () => {
    assert.equal(number(client, 'steadlock_held', stock), 1);
    await assert.rejects(client.lock('stock:42').lock({ waitMs: 250 }), LockTimeoutError);
    const abort = new AbortController();
    const waits = client.lock('stock:42').lock({ signal: abort.signal });
    await eventually(10_000, async () => number(client, 'steadlock_waiting', stock) === 1);
    abort.abort();
    await assert.rejects(waits);
  });
  await client.close();
  for (const outcome of ['granted', 'timed_out', 'cancelled']) {
    assert.equal(number(client, 'steadlock_acquisitions_total', { ...stock, outcome }), 1, outcome);
  }
  assert.equal(number(client, 'steadlock_wait_seconds_count', stock), 3);
  assert.ok(number(client, 'steadlock_wait_seconds_sum', stock) >= 0.25);
  assert.equal(number(client, 'steadlock_hold_seconds_count', stock), 1);
  assert.equal(number(client, 'steadlock_held') + number(client, 'steadlock_waiting'), 0);
  assert.ok(!client.metrics().includes('stock:') && !client.metrics().includes('shop'));
});

it('consist of header lines and samples only', async () => {
  await using client = await connect('memory://', { metrics: true });
  await client.using('stock:42', async () => {});
  const text = client.metrics();
  assert.ok(text.endsWith('\n'));
  const known = new Set<string>();
  for (const line of text.trimEnd().split('\n')) {
    const type = /^# TYPE (steadlock_\w+) (counter|gauge|histogram)$/.exec(line);
    if (type?.[1]) known.add(type[1]);
    else if (!line.startsWith('# HELP steadlock_')) {
      const sample = /^(steadlock_\w+)(?:\{(?:\w+="[^"]*",?)+\})? [\d.]+$/.exec(line);
      assert.ok(sample?.[1] && known.has(sample[1].replace(/_(bucket|sum|count)$/, '')), line);
    }
  }
});

it('counts losses, renewals and reconnects', async () => {
  await using server = await RedisServer.start();
  await using client = await connect(server.url, { metrics: true, leaseMs: 6_000 });
  const lease = await client.lock('stock:1').lock();
  const reaches = (name: string, labels: Record<string, string>) =>
    eventually(20_000, async () => number(client, name, labels) >= 1);
  await client.using('stock:2', { leaseMs: 2_000, renew: true }, () =>
    reaches('steadlock_renewals_total', { group: 'stock', outcome: 'renewed' }),
  );
  await server.kill();
  await server.restart();
  await reaches('steadlock_losses_total', { kind: 'lock', group: 'stock', reason: 'removed' });
  await reaches('steadlock_reconnects_total', { link: 'calls' });
  assert.equal(lease.lostReason, 'removed');
});

it('counts groups beyond the cap as other', async () => {
  await using client = await connect('memory://', { metrics: true, metricsGroups: 2 });
  for (const group of 'abcd') await client.using(`${group}:1`, async () => {});
  const granted = (group: string) => number(client, 'steadlock_acquisitions_total', { group, outcome: 'granted' });
  assert.deepEqual(['a', 'b', 'c', 'other'].map(granted), [1, 1, 0, 2]);
});

it('are off by default, and the error names the option', async () => {
  await using client = await connect('memory://');
  assert.throws(() => client.metrics(), InvalidArgumentError);
  const refused = [
    { metricsGroups: 10 },
    { metrics: true, metricsGroups: 0 },
    { metrics: true, metricsGroups: 1.5 },
    { metrics: true, metricsGroups: 10_001 },
    { metrics: true, metricsGroups: Number.NaN },
    { metrics: 1 as unknown as boolean },
    { metrics: true, metricsGroups: '10' as unknown as number },
    { metricsQueues: ['report'] },
    { metrics: true, metricsQueues: [''] },
    { metrics: true, metricsQueues: 'report' as unknown as string[] },
    { metrics: true, metricsQueues: [7] as unknown as string[] },
  ];
  for (const options of refused) {
    await assert.rejects(connect('memory://', options), InvalidArgumentError, JSON.stringify(options));
  }
});

it('include the chosen queues', async () => {
  await using client = await connect('memory://', { metrics: true, metricsQueues: ['report'] });
  const lock = client.fairLock('report');
  await lock.unlock(await lock.lock());
  while (!client.metrics().includes('steadlock_fair_queue{queue="report"} 0')) await lock.isLocked();
});

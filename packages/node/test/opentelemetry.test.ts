// Tests of the spans and metrics of a client in OpenTelemetry.

import assert from 'node:assert/strict';
import { afterEach, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { DataPointType } from '@opentelemetry/sdk-metrics';
import {
  type Client,
  ClosedError,
  type ConnectOptions,
  connect,
  InvalidArgumentError,
  LockLostError,
  LockTimeoutError,
  MisconfiguredError,
  redlock,
  UnavailableError,
} from 'steadlock';
import { instrument } from 'steadlock/opentelemetry';
import { eventually, RedisServer } from './server.js';
import { counted, newErrors, numbersOf, outside, positive, Recorded, type RecordedSpan, TABLE } from './telemetry.js';

const METRICS_OF_JOBS = ['steadlock_runs_total', 'steadlock_job_last_success_time_seconds'];

const SOON_MS = 20_000;
const LOCK = { 'steadlock.kind': 'lock', 'steadlock.lock': 'stock:42' };
const WAIT: RecordedSpan = {
  name: 'steadlock.wait',
  attributes: { ...LOCK, 'steadlock.outcome': 'granted' },
  status: 'ok',
};

/** Opens an instrumented client. Returns the client and its records. */
async function instrumented(url = 'memory://', options?: ConnectOptions): Promise<[Client, Recorded]> {
  const client = await connect(url, { metrics: true, ...options });
  const recorded = new Recorded();
  instrument(client, recorded);
  return [client, recorded];
}

function wait(outcome: string, errorType?: string): RecordedSpan {
  const error = errorType === undefined ? {} : { 'error.type': errorType };
  return {
    ...WAIT,
    attributes: { ...LOCK, 'steadlock.outcome': outcome, ...error },
    status: errorType === undefined ? 'ok' : 'error',
  };
}

function hold(token: number | null, outcome: string, reason?: string): RecordedSpan {
  const lost = reason === undefined ? {} : { 'steadlock.reason': reason };
  const numbered = token === null ? {} : { 'steadlock.token': token };
  return {
    name: 'steadlock.hold',
    attributes: { ...LOCK, ...numbered, 'steadlock.outcome': outcome, ...lost },
    status: reason !== undefined && ['expired', 'removed', 'stolen'].includes(reason) ? 'error' : 'ok',
  };
}

/** Checks that the recorded waits and leases equal the client's counts. */
async function assertAgrees(client: Client, recorded: Recorded): Promise<void> {
  const waits = await recorded.numbers('steadlock.wait.duration');
  assert.deepEqual(waits, positive(counted(client, 'steadlock_acquisitions_total')));
  const holds = await recorded.numbers('steadlock.hold.duration');
  assert.deepEqual(holds, positive(counted(client, 'steadlock_hold_seconds_count')));
}

afterEach(() => assert.deepEqual(newErrors(), []));

describe('spans', () => {
  it('cover the wait and the lease, as children of the span of the call', async () => {
    const [client, recorded] = await instrumented();
    const [token, parent] = await recorded.within(async (span) => {
      const token = await client.using('stock:42', async (lease) => {
        assert.deepEqual(recorded.takeSpans(), [WAIT]);
        return lease.token;
      });
      return [token, span.spanContext()];
    });
    assert.deepEqual(
      recorded.spans().map(({ parentSpanContext }) => parentSpanContext?.spanId),
      [parent.spanId],
    );
    assert.equal(recorded.spans()[0]?.spanContext().traceId, parent.traceId);
    assert.deepEqual(recorded.takeSpans(), [hold(token, 'released')]);
    await assertAgrees(client, recorded);
    await client.close();
  });

  it('have the span of the call as parent, wherever the lease is released', async () => {
    const [client, recorded] = await instrumented();
    const lock = client.lock('stock:42');
    const first = await outside(() => lock.lock());
    recorded.takeSpans();
    let spanId: string | undefined;
    const second = await recorded.within((span) => {
      spanId = span.spanContext().spanId;
      const waits = lock.lock();
      // The release that leads to the grant runs outside of any span.
      outside(() => first.release());
      return waits;
    });
    await outside(() => second.release());
    const spans = recorded.spans().filter(({ parentSpanContext }) => parentSpanContext?.spanId === spanId);
    assert.deepEqual(
      spans.map(({ name }) => name),
      ['steadlock.wait', 'steadlock.hold'],
    );
    const [wait, hold] = spans;
    const end = ([seconds, nanoseconds]: readonly [number, number]) => seconds * 1e9 + nanoseconds;
    assert.ok(wait && hold && end(wait.endTime) <= end(hold.startTime) + 1e6);
    const alone = recorded.spans().filter(({ parentSpanContext }) => parentSpanContext === undefined);
    assert.deepEqual(
      alone.map(({ name }) => name),
      ['steadlock.hold'],
    );
    await client.close();
  });

  it('exist for each kind of lock and each call', async () => {
    const [client, recorded] = await instrumented();
    const { read, write } = client.readWriteLock('a:rw');
    const semaphore = client.semaphore('a:s', 3);
    const pair = client.multiLock([client.lock('a:1'), semaphore.permits(2)]);
    const kinds = {
      lock: [client.lock('a:l'), 'a:l'],
      mutex: [client.mutex('a:m'), 'a:m'],
      fair_lock: [client.fairLock('a:f'), 'a:f'],
      read_lock: [read, 'a:rw'],
      write_lock: [write, 'a:rw'],
      multi_lock: [pair, 'a:1, a:s'],
    } as const;
    const expected: string[] = [];
    for (const [kind, [lock, name]] of Object.entries(kinds)) {
      await (await lock.lock()).release();
      await lock.unlock((await lock.tryLock()) ?? assert.fail(kind));
      await client.using(lock, () => {});
      await (await lock.lock())[Symbol.asyncDispose]();
      expected.push(...Array<string>(4).fill(`${kind} ${name} released`));
    }
    await semaphore.release(await semaphore.acquire(2));
    await (await semaphore.tryAcquire())?.release();
    await client.using(semaphore, () => {});
    expected.push(...Array<string>(3).fill('semaphore a:s released'));
    for (const lock of [client.lock('a:l'), client.fairLock('a:f'), read, write]) {
      await client.using(lock, async (within) => (await lock.lock({ within })).release());
    }
    expected.push('lock a:l released', 'lock a:l released', 'fair_lock a:f released', 'fair_lock a:f released');
    expected.push(
      'read_lock a:rw released',
      'read_lock a:rw released',
      'write_lock a:rw released',
      'write_lock a:rw released',
    );
    const spans = recorded.takeSpans();
    const waits = spans.filter(({ name }) => name === 'steadlock.wait');
    const holds = spans.filter(({ name }) => name === 'steadlock.hold');
    const words = ({ attributes: of }: RecordedSpan) =>
      `${of['steadlock.kind']} ${of['steadlock.lock']} ${of['steadlock.outcome']}`;
    assert.deepEqual(holds.map(words), expected);
    assert.deepEqual(
      waits.map(words),
      expected.map((one) => one.replace('released', 'granted')),
    );
    const known = TABLE.labels.find(({ name }) => name === 'kind')?.values;
    // The package has no jobs and no leaders yet.
    const made = [...expected.map((one) => one.split(' ')[0]), 'once', 'leader'];
    assert.deepEqual(new Set(made), new Set(known));
    await assertAgrees(client, recorded);
    await client.close();
  });

  it('have the outcome of a wait without a grant', async () => {
    await using server = await RedisServer.start();
    const [client, recorded] = await instrumented(server.url, { breakerFailures: 1, commandTimeoutMs: 2_000 });
    const lock = client.lock('stock:42');
    const token = await client.using(lock, async (lease) => {
      assert.equal(await lock.tryLock(), null);
      await assert.rejects(lock.lock({ waitMs: 250 }), LockTimeoutError);
      const abort = new AbortController();
      const waits = lock.lock({ signal: abort.signal });
      await eventually(SOON_MS, () => [...counted(client, 'steadlock_waiting').values()].includes(1));
      abort.abort(new Error('enough'));
      await assert.rejects(waits, /enough/);
      return lease.token;
    });
    const timedOut = wait('timed_out');
    assert.deepEqual(recorded.takeSpans(), [WAIT, timedOut, timedOut, wait('cancelled'), hold(token, 'released')]);

    await server.store.set('stock:42', 'something else');
    await assert.rejects(lock.lock(), MisconfiguredError);
    await server.store.del('stock:42');
    assert.deepEqual(recorded.takeSpans(), [wait('misconfigured', 'MisconfiguredError')]);

    const outer = await lock.lock({ leaseMs: 3_000, renew: true });
    await client.forceRelease(lock);
    await eventually(SOON_MS, () => outer.signal.aborted);
    await assert.rejects(lock.lock({ within: outer }), LockLostError);
    assert.deepEqual(recorded.takeSpans(), [WAIT, hold(outer.token, 'lost', 'removed'), wait('lost', 'LockLostError')]);

    await assertAgrees(client, recorded);
    // The client does not count this acquisition, because it is refused before anything is sent.
    await assert.rejects(lock.lock({ leaseMs: 1 }), InvalidArgumentError);
    assert.deepEqual(recorded.takeSpans(), [wait('refused', 'InvalidArgumentError')]);

    await server.kill();
    await assert.rejects(lock.lock({ waitMs: 1_000 }), UnavailableError);
    await eventually(SOON_MS, () => counted(client, 'steadlock_breakers_open').get('') === 1);
    recorded.takeSpans();
    await assert.rejects(lock.lock(), UnavailableError);
    assert.deepEqual(recorded.takeSpans(), [wait('unavailable', 'UnavailableError')]);
    assert.equal(await lock.tryLock({ onUnavailable: 'skip' }), null);
    assert.deepEqual(recorded.takeSpans(), [wait('skipped')]);

    const local = await lock.lock({ onUnavailable: 'local' });
    assert.deepEqual(recorded.takeSpans(), [wait('degraded')]);
    const closes = assert.rejects(lock.lock({ onUnavailable: 'local' }), ClosedError);
    await client.close();
    await closes;
    const held = hold(local.token, 'lost', 'closed');
    const degraded = { ...held, attributes: { ...held.attributes, 'steadlock.degraded': true } };
    assert.deepEqual(
      recorded.takeSpans().sort((one, other) => (one.name < other.name ? -1 : 1)),
      [degraded, wait('closed', 'ClosedError')],
    );
  });

  it('have the reason for a loss, and end once', async () => {
    await using server = await RedisServer.start();
    const [client, recorded] = await instrumented(server.url, { leaseMs: 3_000 });
    const lock = client.lock('stock:42');
    const removed = await lock.lock();
    await client.forceRelease(lock);
    await eventually(SOON_MS, () => removed.signal.aborted);
    assert.deepEqual(recorded.takeSpans(), [WAIT, hold(removed.token, 'lost', 'removed')]);
    assert.equal(await removed.release(), 'expired');

    const expired = await lock.lock({ leaseMs: 300 });
    await eventually(SOON_MS, () => expired.signal.aborted);
    assert.deepEqual(recorded.takeSpans(), [WAIT, hold(expired.token, 'lost', 'expired')]);

    const bounded = await lock.lock({ maxHoldMs: 400 });
    await eventually(SOON_MS, () => bounded.signal.aborted);
    assert.deepEqual(recorded.takeSpans(), [WAIT, hold(bounded.token, 'lost', 'max_hold')]);
    await bounded.release();

    // Only the release finds the loss.
    const late = await lock.lock({ leaseMs: 60_000 });
    await client.forceRelease(lock);
    assert.equal(await late.release(), 'expired');
    assert.deepEqual(recorded.takeSpans(), [WAIT, hold(late.token, 'expired', 'expired')]);

    const closed = await lock.lock();
    await client.close();
    assert.deepEqual(recorded.takeSpans(), [WAIT, hold(closed.token, 'lost', 'closed')]);
    assert.equal(await closed.release(), 'released');
    assert.deepEqual(recorded.takeSpans(), []);
  });

  it('show no password in a name', async () => {
    const [client, recorded] = await instrumented();
    await client.using('redis://user:secret@host/0', () => {});
    assert.equal((await client.lock('redis://user:secret@host/0').tryLock({ waitMs: 0 }))?.isValid, true);
    await assert.rejects(client.lock('redis://user:secret@host/0').lock({ waitMs: 0 }), LockTimeoutError);
    await client.close();
    const spans = recorded.takeSpans();
    assert.equal(spans.length, 5);
    assert.ok(!JSON.stringify(spans).includes('secret'));
    assert.ok(!JSON.stringify(await recorded.metrics()).includes('secret'));
  });

  it('have the kind of a RedLock', async () => {
    const client = await redlock(['memory://otel-a', 'memory://otel-b', 'memory://otel-c'], { metrics: true });
    const recorded = new Recorded();
    instrument(client, recorded);
    await client.using(client.mutex('stock:42'), () => {});
    await client.using(client.lock('stock:42'), () => {});
    const kinds = recorded.takeSpans().map(({ attributes }) => attributes['steadlock.kind']);
    assert.deepEqual(kinds, ['mutex', 'mutex', 'lock', 'lock']);
    await assertAgrees(client, recorded);
    await client.close();
  });

  it('have only the attributes of the table', async () => {
    const [client, recorded] = await instrumented();
    await client.using('stock:42', () => {});
    await client.close();
    await assert.rejects(client.lock('stock:42').lock(), ClosedError);
    const spans = recorded.takeSpans();
    assert.deepEqual(new Set(spans.map(({ name }) => name)), new Set(TABLE.spans.map(({ name }) => name)));
    for (const { name, attributes } of spans) {
      const known = TABLE.spans.find((span) => span.name === name)?.attributes ?? [];
      for (const attribute of Object.keys(attributes)) assert.ok(known.includes(attribute), `${name}: ${attribute}`);
    }
  });
});

describe('metrics', () => {
  it('have the names, units, types and meanings of the table, and the counts of the client', async () => {
    await using server = await RedisServer.start();
    const [client, recorded] = await instrumented(server.url, {
      leaseMs: 2_000,
      breakerFailures: 3,
      metricsQueues: ['hot'],
    });
    await eventually(SOON_MS, () => client.metrics().includes('steadlock_fair_queue{queue="hot"} 0'));
    const lock = client.lock('stock:42');
    const lease = await lock.lock();
    assert.equal(await lock.tryLock(), null);
    await eventually(SOON_MS, () => /renewals_total\{.*"renewed"\} [1-9]/.test(client.metrics()));
    await server.kill();
    await server.restart();
    await eventually(SOON_MS, () => lease.signal.aborted && /reconnects_total\{.*\} [1-9]/.test(client.metrics()));
    await client.using(client.semaphore('printers', 2), () => {});

    const fixed = await client.fairLock('report').lock({ leaseMs: 60_000 });
    let before = '';
    let metrics = await recorded.metrics();
    // Reads until no count changes during the reading, because connections can come back at any time.
    while (before !== client.metrics()) {
      before = client.metrics();
      metrics = await recorded.metrics();
    }
    // The package has no jobs yet.
    const table = TABLE.client.filter(({ name }) => !METRICS_OF_JOBS.includes(name));
    assert.deepEqual(
      metrics.map(({ descriptor: { name } }) => name).sort(),
      table.map(({ otel: [name] }) => name).sort(),
    );
    for (const { name, type, otel, meaning } of table) {
      const metric = metrics.find(({ descriptor }) => descriptor.name === otel[0]) ?? assert.fail(name);
      assert.deepEqual([metric.descriptor.unit, metric.descriptor.description], [otel[1], meaning], name);
      if (type === 'histogram') {
        assert.ok(metric.dataPointType === DataPointType.HISTOGRAM, name);
        for (const { value } of metric.dataPoints) assert.deepEqual(value.buckets.boundaries, TABLE.buckets);
        assert.ok(metric.dataPoints.length >= 2);
      } else {
        assert.ok(metric.dataPointType === DataPointType.SUM, name);
        assert.equal(metric.isMonotonic, type === 'counter', name);
        assert.deepEqual(numbersOf(metric), counted(before, name), name);
        assert.ok(metric.dataPoints.length > 0, name);
      }
    }
    await fixed.release();
    await assertAgrees(client, recorded);
    await client.close();
  });

  it('have group names unchanged, and the groups of the client', async () => {
    const [client, recorded] = await instrumented('memory://', { metricsGroups: 3 });
    const odd = 'a"b\\c\u2028{d}=, \r';
    for (const group of [odd, 'second', 'third', 'fourth', 'fifth']) await client.using(`${group}:1`, () => {});
    await client.using('report', () => {});
    const numbers: Record<string, [unknown, number][]> = {};
    for (const { descriptor, dataPoints } of await recorded.metrics()) {
      numbers[descriptor.name] = dataPoints.map(({ attributes, value }) => {
        return [attributes['steadlock.group'], typeof value === 'number' ? value : (value as { count: number }).count];
      });
    }
    const ones = [odd, 'second', 'third', 'none'].map((group) => [group, 1] as const);
    const expected = new Map<unknown, number>([...ones, ['other', 2]]);
    for (const name of ['steadlock.wait.duration', 'steadlock.hold.duration']) {
      assert.deepEqual(new Map(numbers[name]), expected, name);
    }
    const granted = numbers['steadlock.acquisitions']?.filter(([, number]) => number > 0);
    assert.deepEqual(new Map(granted), expected);
    await client.close();
  });

  it('are not read from a closed or uninstrumented client', async () => {
    const client = await connect('memory://', { metrics: true });
    const recorded = new Recorded();
    const { uninstrument } = instrument(client, recorded);
    const held = await client.lock('stock:42').lock();
    assert.equal(await recorded.isRead(), true);
    uninstrument();
    uninstrument();
    assert.equal(await recorded.isRead(), false);
    await client.using('report', () => {});
    // A span that has begun before ends as usual.
    await held.release();
    assert.deepEqual(recorded.takeSpans(), [WAIT, hold(held.token, 'released')]);

    const again = new Recorded();
    {
      using _instrumented = instrument(client, again);
      assert.equal(await again.isRead(), true);
    }
    assert.equal(await again.isRead(), false);
    instrument(client, again);
    assert.equal(await again.isRead(), true);
    await client.close();
    assert.equal(await again.isRead(), false);
    await sleep(0);
    assert.equal(await again.isRead(), false);
  });
});

describe('instrument', () => {
  it('needs a client with metrics, and instruments it once', async () => {
    await using plain = await connect('memory://');
    const needsMetrics = (error: unknown) => error instanceof InvalidArgumentError && error.message.includes('metrics');
    assert.throws(() => instrument(plain, new Recorded()), needsMetrics);
    const [client, recorded] = await instrumented();
    assert.throws(() => instrument(client, new Recorded()), /instrumented already/);
    assert.throws(() => instrument({} as Client), InvalidArgumentError);
    assert.throws(() => instrument(undefined as unknown as Client), InvalidArgumentError);
    assert.throws(() => instrument(plain, 1 as unknown as undefined), InvalidArgumentError);
    await client.using('stock:42', () => {});
    assert.equal(recorded.takeSpans().length, 2);
    await client.close();
  });

  it('uses the global providers, and does nothing without any', async () => {
    await using client = await connect('memory://', { metrics: true });
    using _instrumented = instrument(client);
    await client.using('stock:42', () => {});
  });
});

// Tests of OpenTelemetry with failures and concurrency: neither changes the behaviour of locks.

import assert from 'node:assert/strict';
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, describe, it } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { context, type MeterProvider, type TracerProvider } from '@opentelemetry/api';
import { SimpleSpanProcessor, TracerProvider as Tracers } from '@opentelemetry/sdk-trace';
import { connect, type Lease, LockTimeoutError } from 'steadlock';
import { type InstrumentOptions, instrument } from 'steadlock/opentelemetry';
import { nativeClients } from './garbage.js';
import { run } from './run.js';
import { eventually } from './server.js';
import { counted, current, newErrors, Recorded } from './telemetry.js';

const ROUNDS = 50;
const CALLERS = 40;
const ROOT = join(__dirname, '..', '..');

function fails(): never {
  throw new Error('telemetry is broken');
}

/** Acquires a lock, times out waiting for it, and loses it. */
async function works(options: InstrumentOptions): Promise<void> {
  await using client = await connect('memory://', { metrics: true });
  using _instrumented = instrument(client, options);
  const lock = client.lock('stock:42');
  assert.equal(await client.using(lock, async () => (await lock.tryLock()) === null), true);
  const held = await lock.lock();
  await assert.rejects(lock.lock({ waitMs: 250 }), LockTimeoutError);
  await assert.rejects(lock.lock({ signal: AbortSignal.timeout(1) }), { name: 'TimeoutError' });
  await held.release();
  const lease = await lock.lock({ leaseMs: 100 });
  await eventually(20_000, () => lease.signal.aborted);
  assert.equal(lease.lostReason, 'expired');
}

afterEach(() => void newErrors());

describe('a lock works', () => {
  it('when startSpan throws', async () => {
    const tracerProvider = { getTracer: () => ({ startSpan: fails, startActiveSpan: fails }) };
    await works({ tracerProvider });
    assert.ok(newErrors().length > 0);
  });

  it('when each method of a span throws', async () => {
    const span = new Proxy({}, { get: () => fails });
    const tracer = { startSpan: () => span, startActiveSpan: fails };
    await works({ tracerProvider: { getTracer: () => tracer } as unknown as TracerProvider });
    assert.ok(newErrors().length > 0);
  });

  it('when an exporter throws', async () => {
    const exporter = { export: fails, shutdown: async () => {}, forceFlush: async () => {} };
    await works({ tracerProvider: new Tracers({ spanProcessors: [new SimpleSpanProcessor({ exporter })] }) });
  });

  it('when a processor throws', async () => {
    const processor = { onStart: fails, onEnd: fails, shutdown: async () => {}, forceFlush: async () => {} };
    await works({ tracerProvider: new Tracers({ spanProcessors: [processor] }) });
    assert.ok(newErrors().length > 0);
  });

  it('when instruments throw', async () => {
    const instruments = new Proxy(
      { createHistogram: () => ({ record: fails }), removeBatchObservableCallback: fails },
      { get: (own, name) => Reflect.get(own, name) ?? (() => ({})) },
    );
    await works({ meterProvider: { getMeter: () => instruments } as unknown as MeterProvider });
    assert.ok(newErrors().length > 0);
  });

  it('when the context manager throws', async () => {
    const before = context.active;
    context.active = fails;
    try {
      await works(new Recorded());
    } finally {
      context.active = before;
    }
    assert.ok(newErrors().length > 0);
  });

  it('and a failing instrument() leaves the client unchanged', async () => {
    await using client = await connect('memory://', { metrics: true });
    assert.throws(() => instrument(client, { meterProvider: { getMeter: fails } }), /broken/);
    assert.throws(() => instrument(client, { tracerProvider: { getTracer: fails } }), /broken/);
    const recorded = new Recorded();
    instrument(client, recorded);
    await client.using('stock:42', () => {});
    assert.equal(recorded.takeSpans().length, 2);
  });
});

it('concurrent callers have separate spans, each of which ends once', async () => {
  for (let round = 0; round < ROUNDS; round += 1) {
    const client = await connect('memory://', { metrics: true });
    const recorded = new Recorded();
    instrument(client, recorded);
    const lock = client.lock('stock:42');
    const semaphore = client.semaphore('printers', 3);
    const leases: Lease[] = [];
    /** The expected numbers of waits and holds of each caller, by the caller's span. */
    const wanted = new Map<string, string>();
    const callers = Array.from({ length: CALLERS }, (_, number) =>
      recorded.within(async () => {
        const mine = current() ?? assert.fail();
        await turn();
        if (number % 4 === 0) {
          const abort = new AbortController();
          const waits = lock.lock({ signal: abort.signal }).catch(() => null);
          if (number % 8 === 0) await turn();
          abort.abort();
          const lease = await waits;
          await lease?.release();
          wanted.set(mine, lease ? '1 1' : '1 0');
        } else if (number % 4 === 1) {
          await client.using(semaphore, () => turn());
          wanted.set(mine, '1 1');
        } else if (number % 4 === 2) {
          await client.using(lock, async (within) => (await lock.lock({ within })).release());
          wanted.set(mine, '2 2');
        } else {
          // The close of the client ends these leases.
          leases.push(await client.lock(`mine:${number}`).lock());
          wanted.set(mine, '1 1');
        }
        assert.equal(current(), mine);
      }),
    );
    await Promise.all(callers);
    await client.close();
    const found = new Map<string, [waits: number, holds: number]>();
    const ids = new Set<string>();
    for (const span of recorded.spans()) {
      const parent = span.parentSpanContext?.spanId ?? assert.fail('a span without its parent');
      const counts = found.get(parent) ?? [0, 0];
      counts[span.name === 'steadlock.wait' ? 0 : 1] += 1;
      found.set(parent, counts);
      ids.add(span.spanContext().spanId);
    }
    assert.equal(ids.size, recorded.spans().length);
    const words = [...found].map(([parent, counts]) => [parent, counts.join(' ')] as const);
    assert.deepEqual(new Map(words.sort()), new Map([...wanted].sort()));
    const times = [...(await recorded.numbers('steadlock.hold.duration')).values()];
    const holds = [...found.values()].reduce((sum, [, count]) => sum + count, 0);
    assert.equal(
      times.reduce((sum, count) => sum + count, 0),
      holds,
    );
    // The client also counts grants that came while their callers aborted.
    const all = [...counted(client, 'steadlock_hold_seconds_count').values()].reduce((sum, count) => sum + count, 0);
    assert.ok(all >= holds && all <= holds + CALLERS / 4);
    const closed = recorded.takeSpans().filter(({ attributes }) => attributes['steadlock.reason'] === 'closed');
    assert.equal(closed.length, leases.length);
    // OpenTelemetry would complain about a span that was ended twice.
    assert.deepEqual(newErrors(), []);
  }
});

it('a dropped client is freed, and its metrics are not read any more', async () => {
  const recorded = new Recorded();
  await (async () => {
    const client = await connect('memory://', { metrics: true });
    instrument(client, recorded);
    await client.using('stock:42', () => {});
    assert.equal(await recorded.isRead(), true);
  })();
  await eventually(20_000, () => nativeClients().left === 0);
  assert.equal(await recorded.isRead(), false);
});

it('only steadlock/opentelemetry needs OpenTelemetry, and reports that it is missing', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'steadlock-node-'));
  try {
    const installed = join(folder, 'node_modules', 'steadlock');
    mkdirSync(installed, { recursive: true });
    for (const part of ['dist', 'package.json']) cpSync(join(ROOT, part), join(installed, part), { recursive: true });
    symlinkSync(join(ROOT, 'native'), join(installed, 'native'));
    const ended = await run(
      `import { createRequire } from 'node:module';
      process.chdir(${JSON.stringify(folder)});
      const require = createRequire(process.cwd() + '/');
      const { connect } = require('steadlock');
      const client = await connect('memory://', { metrics: true });
      console.log(await client.using('stock:42', () => 'held'));
      await client.close();
      for (const load of [() => require('steadlock/opentelemetry'), () => import(require.resolve('steadlock/opentelemetry'))]) {
        try {
          await load();
        } catch (error) {
          console.log(error.message);
        }
      }`,
      'memory://',
    );
    assert.equal(ended.errors, '');
    const [held, ...messages] = ended.output.trim().split('\n');
    assert.equal(held, 'held');
    assert.equal(messages.length, 2);
    for (const message of messages) assert.match(message, /@opentelemetry\/api, which is missing; install it/);
  } finally {
    rmSync(folder, { recursive: true });
  }
});

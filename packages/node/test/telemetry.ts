// Helpers for tests of telemetry: providers that keep records in memory, and the expected records.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import {
  type Attributes,
  context,
  DiagLogLevel,
  diag,
  ROOT_CONTEXT,
  type Span,
  SpanStatusCode,
  trace,
} from '@opentelemetry/api';
import { AsyncLocalStorageContextManager } from '@opentelemetry/context-async-hooks';
import {
  AggregationTemporality,
  DataPointType,
  MeterProvider,
  type MetricData,
  MetricReader,
} from '@opentelemetry/sdk-metrics';
import { InMemorySpanExporter, type ReadableSpan, SimpleSpanProcessor, TracerProvider } from '@opentelemetry/sdk-trace';
import type { Client } from 'steadlock';

interface Table {
  readonly client: readonly {
    readonly name: string;
    readonly type: 'counter' | 'gauge' | 'histogram';
    readonly otel: readonly [name: string, unit: string];
    readonly meaning: string;
  }[];
  readonly labels: readonly { readonly name: string; readonly of?: string; readonly values: readonly string[] }[];
  readonly buckets: readonly number[];
  readonly spans: readonly { readonly name: string; readonly attributes: readonly string[] }[];
}

/** The table of the records, the same for every language. */
export const TABLE = JSON.parse(
  readFileSync(join(__dirname, '..', '..', '..', '..', 'ci', 'api', 'metrics.json'), 'utf8'),
) as Table;

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

/** The warnings and errors of OpenTelemetry and of this package, such as a span that was ended twice. */
const errors: unknown[][] = [];
const addError = (...what: unknown[]) => void errors.push(what);
diag.setLogger(
  { error: addError, warn: addError, info: () => {}, debug: () => {}, verbose: () => {} },
  { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
);

/** Returns the warnings and errors since the last call. */
export function newErrors(): unknown[][] {
  return errors.splice(0);
}

/** The parts of a span that tests compare. */
export interface RecordedSpan {
  readonly name: string;
  readonly attributes: Attributes;
  readonly status: 'ok' | 'error';
}

class Reader extends MetricReader {
  protected override async onShutdown(): Promise<void> {}
  protected override async onForceFlush(): Promise<void> {}
}

/** Providers for spans and for metrics. */
export class Recorded {
  readonly #exporter = new InMemorySpanExporter();
  readonly #reader = new Reader();
  readonly #changes = new Reader({ aggregationTemporalitySelector: () => AggregationTemporality.DELTA });
  readonly tracerProvider = new TracerProvider({
    spanProcessors: [new SimpleSpanProcessor({ exporter: this.#exporter })],
  });
  readonly meterProvider = new MeterProvider({ readers: [this.#reader, this.#changes] });

  /** Runs `what` in a span of the program. Ends the span afterwards. */
  within<T>(what: (span: Span) => Promise<T>): Promise<T> {
    return this.tracerProvider.getTracer('program').startActiveSpan('program', async (span) => {
      try {
        return await what(span);
      } finally {
        span.end();
      }
    });
  }

  /** Returns this package's spans, in the order in which they ended. */
  spans(): ReadableSpan[] {
    return this.#exporter.getFinishedSpans().filter(({ instrumentationScope: { name } }) => name === 'steadlock');
  }

  /** Returns the same spans, reduced to the compared parts, and forgets them. */
  takeSpans(): RecordedSpan[] {
    const spans = this.spans().map(({ name, attributes, status }) => {
      return { name, attributes, status: status.code === SpanStatusCode.ERROR ? ('error' as const) : ('ok' as const) };
    });
    this.#exporter.reset();
    return spans;
  }

  /** Reads all metrics now. */
  async metrics(): Promise<MetricData[]> {
    const { resourceMetrics, errors } = await this.#reader.collect();
    assert.deepEqual(errors, []);
    return resourceMetrics.scopeMetrics.flatMap(({ scope, metrics }) => (scope.name === 'steadlock' ? metrics : []));
  }

  /**
   * Returns whether a reading of the client's counts contains data. Uses a reader of changes, because other readers
   * repeat the data of earlier readings.
   */
  async isRead(): Promise<boolean> {
    const { resourceMetrics } = await this.#changes.collect();
    const metrics = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
    return metrics.some(({ descriptor: { name }, dataPoints }) => name === 'steadlock.held' && dataPoints.length > 0);
  }

  /** Returns the numbers of a metric by attributes; for a histogram, the counts of its records. */
  async numbers(name: string): Promise<Map<string, number>> {
    const metric = (await this.metrics()).find(({ descriptor }) => descriptor.name === name);
    return metric === undefined ? new Map() : numbersOf(metric);
  }
}

/** Returns the numbers of a metric by attributes, in order; for a histogram, the counts of its records. */
export function numbersOf(metric: MetricData): Map<string, number> {
  if (metric.dataPointType === DataPointType.SUM) {
    return sorted(metric.dataPoints.map(({ attributes, value }) => [keyOf(attributes), value]));
  }
  assert.equal(metric.dataPointType, DataPointType.HISTOGRAM);
  return sorted(metric.dataPoints.map(({ attributes, value }) => [keyOf(attributes), value.count]));
}

/**
 * Returns the numbers of a metric as `numbersOf` does, but from `Client.metrics` or from an earlier text of it. Parses
 * no escapes, because the groups in tests have none.
 */
export function counted(from: Client | string, name: string): Map<string, number> {
  const text = typeof from === 'string' ? from : from.metrics();
  const lines = text.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
  return sorted(
    lines.map((line) => {
      const labels = [...line.matchAll(/(\w+)="([^"]*)"/g)];
      const attributes = Object.fromEntries(labels.map(([, label, word]) => [`steadlock.${label}`, word as string]));
      return [keyOf(attributes), Number(line.slice(line.lastIndexOf(' ')))];
    }),
  );
}

/** Returns the numbers that are not zero. */
export function positive(numbers: Map<string, number>): Map<string, number> {
  return new Map([...numbers].filter(([, number]) => number !== 0));
}

/** Runs `what` in the context without a span. */
export function outside<T>(what: () => T): T {
  return context.with(ROOT_CONTEXT, what);
}

/** Returns the id of the current span. */
export function current(): string | undefined {
  return trace.getActiveSpan()?.spanContext().spanId;
}

export function keyOf(attributes: Attributes): string {
  return Object.entries(attributes)
    .map(([name, value]) => `${name}=${value}`)
    .sort()
    .join(' ');
}

function sorted(numbers: [string, number][]): Map<string, number> {
  return new Map(numbers.sort(([one], [other]) => (one < other ? -1 : 1)));
}

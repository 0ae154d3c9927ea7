// What tests of telemetry need: providers that keep in memory what they are told, and what is to be told.

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
  readonly labels: readonly { readonly name: string; readonly of?: string; readonly words: readonly string[] }[];
  readonly buckets: readonly number[];
  readonly spans: readonly { readonly name: string; readonly attributes: readonly string[] }[];
}

/** What every language records. */
export const TABLE = JSON.parse(
  readFileSync(join(__dirname, '..', '..', '..', '..', 'ci', 'api', 'metrics.json'), 'utf8'),
) as Table;

context.setGlobalContextManager(new AsyncLocalStorageContextManager().enable());

/** What OpenTelemetry and we complained of, such as a span that was ended twice. */
const complaints: unknown[][] = [];
const complain = (...what: unknown[]) => void complaints.push(what);
diag.setLogger(
  { error: complain, warn: complain, info: () => {}, debug: () => {}, verbose: () => {} },
  { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
);

/** What was complained of since the last time. */
export function newComplaints(): unknown[][] {
  return complaints.splice(0);
}

/** A span, as far as tests look at it. */
export interface Told {
  readonly name: string;
  readonly attributes: Attributes;
  readonly status: 'ok' | 'error';
}

class Reader extends MetricReader {
  protected override async onShutdown(): Promise<void> {}
  protected override async onForceFlush(): Promise<void> {}
}

/** Providers of both sorts. */
export class Recorded {
  readonly #exporter = new InMemorySpanExporter();
  readonly #reader = new Reader();
  readonly #changes = new Reader({ aggregationTemporalitySelector: () => AggregationTemporality.DELTA });
  readonly tracerProvider = new TracerProvider({
    spanProcessors: [new SimpleSpanProcessor({ exporter: this.#exporter })],
  });
  readonly meterProvider = new MeterProvider({ readers: [this.#reader, this.#changes] });

  /** Does something within a span of the program's own, which ends after it. */
  within<T>(what: (span: Span) => Promise<T>): Promise<T> {
    return this.tracerProvider.getTracer('program').startActiveSpan('program', async (span) => {
      try {
        return await what(span);
      } finally {
        span.end();
      }
    });
  }

  /** Our spans that have ended, in that order. */
  spans(): ReadableSpan[] {
    return this.#exporter.getFinishedSpans().filter(({ instrumentationScope: { name } }) => name === 'steadlock');
  }

  /** The same, without what is of no interest; they are forgotten then. */
  told(): Told[] {
    const spans = this.spans().map(({ name, attributes, status }) => {
      return { name, attributes, status: status.code === SpanStatusCode.ERROR ? ('error' as const) : ('ok' as const) };
    });
    this.#exporter.reset();
    return spans;
  }

  /** All metrics, read now. */
  async metrics(): Promise<MetricData[]> {
    const { resourceMetrics, errors } = await this.#reader.collect();
    assert.deepEqual(errors, []);
    return resourceMetrics.scopeMetrics.flatMap(({ scope, metrics }) => (scope.name === 'steadlock' ? metrics : []));
  }

  /** Whether a reading of the client's counts has anything. What was read once is repeated by other readers. */
  async isRead(): Promise<boolean> {
    const { resourceMetrics } = await this.#changes.collect();
    const metrics = resourceMetrics.scopeMetrics.flatMap(({ metrics }) => metrics);
    return metrics.some(({ descriptor: { name }, dataPoints }) => name === 'steadlock.held' && dataPoints.length > 0);
  }

  /** What a metric says, by its attributes; of a histogram, how many were recorded. */
  async numbers(name: string): Promise<Map<string, number>> {
    const metric = (await this.metrics()).find(({ descriptor }) => descriptor.name === name);
    return metric === undefined ? new Map() : numbersOf(metric);
  }
}

/** The numbers of a metric by its attributes, in order; of a histogram, how many were recorded. */
export function numbersOf(metric: MetricData): Map<string, number> {
  if (metric.dataPointType === DataPointType.SUM) {
    return sorted(metric.dataPoints.map(({ attributes, value }) => [keyOf(attributes), value]));
  }
  assert.equal(metric.dataPointType, DataPointType.HISTOGRAM);
  return sorted(metric.dataPoints.map(({ attributes, value }) => [keyOf(attributes), value.count]));
}

/** The same, as `Client.metrics` says it, or said it. Groups of tests need no escapes. */
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

/** Only what is not zero. */
export function positive(numbers: Map<string, number>): Map<string, number> {
  return new Map([...numbers].filter(([, number]) => number !== 0));
}

/** The context without any span. */
export function outside<T>(what: () => T): T {
  return context.with(ROOT_CONTEXT, what);
}

/** The span that is current. */
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

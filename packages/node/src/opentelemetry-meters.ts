// The metrics of one client as instruments of OpenTelemetry.

import type { BatchObservableCallback, Histogram, Meter, MetricOptions, Observable } from '@opentelemetry/api';
import type { Engine } from './engine.js';
import { errorOf } from './errors.js';
import type { NativeMetric } from './native.js';
import { callSafely } from './opentelemetry-api.js';

/**
 * The instruments of one client: histograms, for the durations that `Spans` measures, and observable instruments, which
 * read the client's counts.
 */
export class Meters {
  readonly waits: Histogram;
  readonly holds: Histogram;
  readonly #meter: Meter;
  readonly #observables: ReadonlyMap<string, Observable>;
  readonly #observe: BatchObservableCallback;

  /** Throws the error of `Client.metrics` if the client has no metrics. */
  constructor(meter: Meter, engine: Engine) {
    const observables = new Map<string, Observable>();
    const histograms = new Map<string, Histogram>();
    for (const { name, unit, kind, meaning, bounds } of metricsOf(engine)) {
      const options: MetricOptions = { unit, description: meaning };
      if (kind === 'histogram') {
        const advice = { explicitBucketBoundaries: bounds };
        histograms.set(name, meter.createHistogram(name, { ...options, advice }));
      } else {
        const create = kind === 'gauge' ? 'createObservableUpDownCounter' : 'createObservableCounter';
        observables.set(name, meter[create](name, options));
      }
    }
    this.waits = histograms.get('steadlock.wait.duration') as Histogram;
    this.holds = histograms.get('steadlock.hold.duration') as Histogram;
    this.#meter = meter;
    this.#observables = observables;
    this.#observe = this.#observing(new WeakRef(engine));
    meter.addBatchObservableCallback(this.#observe, [...observables.values()]);
  }

  /** Stops reading the client's counts. */
  stop(): void {
    callSafely(() => this.#meter.removeBatchObservableCallback(this.#observe, [...this.#observables.values()]));
  }

  /**
   * Returns the callback that runs once for each collection. It must not keep a client alive that the program has
   * dropped.
   */
  #observing(client: WeakRef<Engine>): BatchObservableCallback {
    return (result) => {
      const engine = client.deref();
      if (engine === undefined || engine.isClosed) {
        // Stops later, because the caller iterates over the list of callbacks now.
        queueMicrotask(() => this.stop());
        return;
      }
      callSafely(() => {
        for (const { name, rows } of metricsOf(engine)) {
          const observable = this.#observables.get(name);
          if (observable === undefined) continue;
          for (const { labels, number } of rows) {
            const attributes = Object.entries(labels).map(([label, word]) => [`steadlock.${label}`, word]);
            result.observe(observable, number, Object.fromEntries(attributes));
          }
        }
      });
    };
  }
}

function metricsOf(engine: Engine): NativeMetric[] {
  const metrics = engine.inbox.native.metricRows();
  if (!Array.isArray(metrics)) throw errorOf(metrics);
  return metrics;
}

// The metrics of one client as instruments of OpenTelemetry.

import type { BatchObservableCallback, Histogram, Meter, MetricOptions, Observable } from '@opentelemetry/api';
import type { Engine } from './engine.js';
import { guarded } from './opentelemetry-api.js';
import { headsOf, samplesOf } from './prometheus.js';

/** The names and units of the metrics in OpenTelemetry. `ci/api/metrics.json` has the same table. */
const NAMES: readonly (readonly [name: string, unit: string, prometheus: string])[] = [
  ['steadlock.acquisitions', '{acquisition}', 'steadlock_acquisitions_total'],
  ['steadlock.wait.duration', 's', 'steadlock_wait_seconds'],
  ['steadlock.hold.duration', 's', 'steadlock_hold_seconds'],
  ['steadlock.held', '{lease}', 'steadlock_held'],
  ['steadlock.waiting', '{caller}', 'steadlock_waiting'],
  ['steadlock.renewals', '{renewal}', 'steadlock_renewals_total'],
  ['steadlock.losses', '{lease}', 'steadlock_losses_total'],
  ['steadlock.connections.lost', '{connection}', 'steadlock_connections_lost_total'],
  ['steadlock.reconnects', '{connection}', 'steadlock_reconnects_total'],
  ['steadlock.connect.failures', '{try}', 'steadlock_connect_failures_total'],
  ['steadlock.breakers.opened', '{breaker}', 'steadlock_breakers_opened_total'],
  ['steadlock.breakers.open', '{breaker}', 'steadlock_breakers_open'],
  ['steadlock.fair.queue', '{caller}', 'steadlock_fair_queue'],
];

/** The bounds of the histograms' buckets, in seconds, as in that table. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600];

/**
 * The instruments of one client: histograms, into which spans record, and observable instruments, which read the
 * client's counts.
 */
export class Meters {
  readonly waits: Histogram;
  readonly holds: Histogram;
  readonly #meter: Meter;
  readonly #observables: ReadonlyMap<string, Observable>;
  readonly #observe: BatchObservableCallback;

  /** Throws the error of `Client.metrics` if the client has no metrics. */
  constructor(meter: Meter, engine: Engine) {
    const heads = headsOf(engine.metrics());
    const observables = new Map<string, Observable>();
    const histograms = new Map<string, Histogram>();
    for (const [name, unit, prometheus] of NAMES) {
      const { type, meaning } = heads.get(prometheus) ?? {};
      const options: MetricOptions = { unit, description: meaning ?? '' };
      if (type === 'histogram') {
        const advice = { explicitBucketBoundaries: BUCKETS };
        histograms.set(name, meter.createHistogram(name, { ...options, advice }));
      } else {
        const create = type === 'gauge' ? 'createObservableUpDownCounter' : 'createObservableCounter';
        observables.set(prometheus, meter[create](name, options));
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
    guarded(() => this.#meter.removeBatchObservableCallback(this.#observe, [...this.#observables.values()]));
  }

  /**
   * Returns the callback that runs once for each collection. It must not keep a client alive that the program has
   * dropped.
   */
  #observing(client: WeakRef<Engine>): BatchObservableCallback {
    return (result) => {
      const engine = client.deref();
      if (engine === undefined || engine.isClosed) {
        // The removal must wait: the caller is iterating over the list of callbacks.
        queueMicrotask(() => this.stop());
        return;
      }
      guarded(() => {
        for (const { name, labels, value } of samplesOf(engine.metrics())) {
          const observable = this.#observables.get(name);
          if (observable === undefined) continue;
          const attributes = Array.from(labels, ([label, word]) => [`steadlock.${label}`, word]);
          result.observe(observable, value, Object.fromEntries(attributes));
        }
      });
    };
  }
}

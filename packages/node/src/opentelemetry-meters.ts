// The metrics of one client as instruments of OpenTelemetry.

import type { BatchObservableCallback, Histogram, Meter, MetricOptions, Observable } from '@opentelemetry/api';
import type { Engine } from './engine.js';
import { guarded } from './opentelemetry-api.js';
import { headsOf, samplesOf } from './prometheus.js';

/** The names that OpenTelemetry has the metrics by, and their units. `ci/api/metrics.json` has the same. */
const NAMES: readonly (readonly [name: string, unit: string, prometheus: string])[] = [
  ['leasehold.acquisitions', '{acquisition}', 'leasehold_acquisitions_total'],
  ['leasehold.wait.duration', 's', 'leasehold_wait_seconds'],
  ['leasehold.hold.duration', 's', 'leasehold_hold_seconds'],
  ['leasehold.held', '{lease}', 'leasehold_held'],
  ['leasehold.waiting', '{caller}', 'leasehold_waiting'],
  ['leasehold.renewals', '{renewal}', 'leasehold_renewals_total'],
  ['leasehold.losses', '{lease}', 'leasehold_losses_total'],
  ['leasehold.connections.lost', '{connection}', 'leasehold_connections_lost_total'],
  ['leasehold.reconnects', '{connection}', 'leasehold_reconnects_total'],
  ['leasehold.connect.failures', '{try}', 'leasehold_connect_failures_total'],
  ['leasehold.breakers.opened', '{breaker}', 'leasehold_breakers_opened_total'],
  ['leasehold.breakers.open', '{breaker}', 'leasehold_breakers_open'],
  ['leasehold.fair.queue', '{caller}', 'leasehold_fair_queue'],
];

/** The bounds of the histograms' buckets, in seconds; the same table has them. */
const BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60, 600, 3600];

/** The instruments of one client: histograms, which are recorded, and the others, which read what it has counted. */
export class Meters {
  readonly waits: Histogram;
  readonly holds: Histogram;
  readonly #meter: Meter;
  readonly #observables: ReadonlyMap<string, Observable>;
  readonly #observe: BatchObservableCallback;

  /** Throws the error of `Client.metrics` if the client counts nothing. */
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
    this.waits = histograms.get('leasehold.wait.duration') as Histogram;
    this.holds = histograms.get('leasehold.hold.duration') as Histogram;
    this.#meter = meter;
    this.#observables = observables;
    this.#observe = this.#observing(new WeakRef(engine));
    meter.addBatchObservableCallback(this.#observe, [...observables.values()]);
  }

  /** From now on the client's counts are read no more. */
  stop(): void {
    guarded(() => this.#meter.removeBatchObservableCallback(this.#observe, [...this.#observables.values()]));
  }

  /** What is called once for each collection. It must not keep a client that its program has dropped. */
  #observing(client: WeakRef<Engine>): BatchObservableCallback {
    return (result) => {
      const engine = client.deref();
      if (engine === undefined || engine.isClosed) {
        // Later: whoever calls goes through the list of callbacks.
        queueMicrotask(() => this.stop());
        return;
      }
      guarded(() => {
        for (const { name, labels, value } of samplesOf(engine.metrics())) {
          const observable = this.#observables.get(name);
          if (observable === undefined) continue;
          const attributes = Array.from(labels, ([label, word]) => [`leasehold.${label}`, word]);
          result.observe(observable, value, Object.fromEntries(attributes));
        }
      });
    };
  }
}

/// <reference lib="esnext.disposable" preserve="true" />

/** Steadlock for OpenTelemetry: spans of waits and leases, and the metrics. Needs the package `@opentelemetry/api`. */

import type { MeterProvider, TracerProvider } from '@opentelemetry/api';
import { object } from './arguments.js';
import { Client } from './client.js';
import { InvalidArgumentError } from './errors.js';
import { ENGINE_OF } from './internals.js';
import { api } from './opentelemetry-api.js';
import { Meters } from './opentelemetry-meters.js';
import { Spans } from './opentelemetry-spans.js';

/** Where spans and metrics go. What is left out is the global provider. */
export interface InstrumentOptions {
  /** Has the spans. Default the global one. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** Has the metrics. Default the global one, which has to be set before `instrument` is called. */
  readonly meterProvider?: MeterProvider | undefined;
}

/** What `instrument` began. */
export interface Instrumentation {
  /**
   * Ends it: new waits have no spans, and nothing that the client counts is read any more. Spans that have begun end as
   * they would have. Idempotent.
   */
  uninstrument(): void;

  /** Ends it at the end of a `using` block. */
  [Symbol.dispose](): void;
}

/**
 * Tells OpenTelemetry what a client does, until the client is closed or `uninstrument` is called.
 *
 * - Spans: `steadlock.wait` from the call until the lock was granted or the wait ended otherwise, and `steadlock.hold`
 *   from the grant until the lease was released or lost. Both are children of the span that is current where the lock
 *   is asked for.
 * - Metrics: what `client.metrics()` has, by names as `steadlock.held`. docs/metrics.md says what there is.
 *
 * If OpenTelemetry fails, no call of the client does: the failure goes to the API's `diag`.
 *
 * @param client a client that was made with `metrics: true`
 * @param options the providers, if they are not the global ones
 * @throws InvalidArgumentError for something else than a client, a client that was made without `metrics: true`, or one
 * that is instrumented already
 */
export function instrument(client: Client, options?: InstrumentOptions): Instrumentation {
  const engine = Client[ENGINE_OF](client);
  if (engine === undefined) throw refused('what is instrumented must be a client of steadlock');
  if (engine.telemetry !== undefined) throw refused('the client is instrumented already; call `uninstrument` first');
  const given = object(options, 'the options', 'connect');
  const meter = (given?.meterProvider ?? api.metrics).getMeter('steadlock', VERSION);
  const tracer = (given?.tracerProvider ?? api.trace).getTracer('steadlock', VERSION);
  const meters = new Meters(meter, engine);
  const spans = new Spans({ tracer, waits: meters.waits, holds: meters.holds });
  engine.telemetry = spans;
  const uninstrument = () => {
    meters.stop();
    if (engine.telemetry === spans) engine.telemetry = undefined;
  };
  return { uninstrument, [Symbol.dispose]: uninstrument };
}

function refused(message: string): InvalidArgumentError {
  return new InvalidArgumentError(message, { operation: 'connect' });
}

const { version: VERSION } = require('../package.json') as { version: string };

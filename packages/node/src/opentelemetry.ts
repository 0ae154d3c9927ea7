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

/** The receivers of spans and metrics. A provider that is left out is the global one. */
export interface InstrumentOptions {
  /** The provider for the spans. Default the global one. */
  readonly tracerProvider?: TracerProvider | undefined;
  /** The provider for the metrics. Default the global one, which must be set before `instrument` is called. */
  readonly meterProvider?: MeterProvider | undefined;
}

/** The result of `instrument`. */
export interface Instrumentation {
  /**
   * Ends the instrumentation: new waits have no spans, and the client's counts are not read any more. Spans that have
   * begun end as usual. Idempotent.
   */
  uninstrument(): void;

  /** Ends the instrumentation at the end of a `using` block. */
  [Symbol.dispose](): void;
}

/**
 * Reports the spans and metrics of a client to OpenTelemetry, until the client is closed or `uninstrument` is called.
 *
 * - Spans: `steadlock.wait` from the call until the lock was granted or the wait ended otherwise, and `steadlock.hold`
 *   from the grant until the lease was released or lost. Both are children of the span that is current when the lock is
 *   requested.
 * - Metrics: those of `client.metrics()`, with names such as `steadlock.held`. See docs/metrics.md for the list.
 *
 * A failure of OpenTelemetry fails no call of the client. It goes to the API's `diag`.
 *
 * @param client a client that was made with `metrics: true`
 * @param options the providers, if they are not the global ones
 * @throws InvalidArgumentError if `client` is not a client, was made without `metrics: true`, or is instrumented
 * already
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

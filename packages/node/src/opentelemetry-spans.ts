// The spans of one client's waits and leases, and their durations.

import type { Attributes, Context, Histogram, Span, Tracer } from '@opentelemetry/api';
import { type ErrorKind, errorOf, type LostReason } from './errors.js';
import { type NativeFailure, native } from './native.js';
import { api, callSafely } from './opentelemetry-api.js';
import type { GrantedLease, HoldSpan, Telemetry, WaitSpan, WantedLock } from './telemetry.js';

/** The outcome of an acquisition, as the metrics name it. */
type Outcome =
  | 'granted'
  | 'degraded'
  | 'timed_out'
  | 'skipped'
  | 'running'
  | 'done'
  | 'cancelled'
  | 'unavailable'
  | 'misconfigured'
  | 'refused'
  | 'lost'
  | 'closed';

const OUTCOMES: Readonly<Record<ErrorKind, Outcome>> = {
  LockTimeout: 'timed_out',
  Skipped: 'skipped',
  NotOwner: 'refused',
  LockLost: 'lost',
  Cancelled: 'cancelled',
  Unavailable: 'unavailable',
  Misconfigured: 'misconfigured',
  InvalidArgument: 'refused',
  Closed: 'closed',
  Forked: 'refused',
};

/** Returns the outcome of an acquisition that failed. */
function outcomeOf({ kind, reason, skipped }: NativeFailure): Outcome {
  if (skipped) return 'skipped';
  return kind === 'Skipped' ? (reason as Outcome) : OUTCOMES[kind as ErrorKind];
}

/** The outcomes of a wait that are not errors. */
const NON_ERRORS: readonly Outcome[] = ['granted', 'degraded', 'timed_out', 'skipped', 'running', 'done', 'cancelled'];

/** The reasons for a loss that the program itself did not cause. */
const ERROR_REASONS: readonly LostReason[] = ['expired', 'removed', 'stolen'];

/** The receivers of spans and durations. */
export interface Sinks {
  readonly tracer: Tracer;
  readonly waits: Histogram;
  readonly holds: Histogram;
}

/** Records the waits and leases of one client. Has no reference to the client. */
export class Spans implements Telemetry {
  readonly #sinks: Sinks;
  readonly #groups = new Groups();

  constructor(sinks: Sinks) {
    this.#sinks = sinks;
  }

  waits(lock: WantedLock): WaitSpan {
    return new RecordedWait(this.#sinks, this.#groups, lock);
  }
}

class RecordedWait implements WaitSpan {
  readonly #sinks: Sinks;
  readonly #groups: Groups;
  readonly #lock: WantedLock;
  readonly #kind: string;
  readonly #since = performance.now();
  #attributes: Attributes = {};
  #context: Context = api.ROOT_CONTEXT;
  #span: Span | undefined;

  constructor(sinks: Sinks, groups: Groups, lock: WantedLock) {
    this.#sinks = sinks;
    this.#groups = groups;
    this.#lock = lock;
    this.#kind = lock.lock.kind;
    callSafely(() => {
      this.#attributes = { 'steadlock.kind': this.#kind, 'steadlock.lock': native.shown(lock.name) };
      this.#context = api.context.active();
      this.#span = sinks.tracer.startSpan('steadlock.wait', { attributes: this.#attributes }, this.#context);
    });
  }

  granted({ token, degraded }: GrantedLease): HoldSpan {
    const labels = this.#end(degraded ? 'degraded' : 'granted');
    const attributes = { ...this.#attributes };
    if (token !== null) attributes['steadlock.token'] = token;
    if (degraded) attributes['steadlock.degraded'] = true;
    // Uses the context of the caller. The current context is that of the wake-up by the engine.
    const context = this.#context;
    const span = callSafely(() => this.#sinks.tracer.startSpan('steadlock.hold', { attributes }, context));
    return new RecordedHold(span, context, this.#sinks.holds, labels);
  }

  failed(failure: NativeFailure): void {
    this.#end(outcomeOf(failure), failure);
  }

  cancelled(): void {
    this.#end('cancelled');
  }

  /** Ends the span and records the duration. Returns the attributes for durations of this lock. */
  #end(outcome: Outcome, failure?: NativeFailure): Attributes {
    const seconds = (performance.now() - this.#since) / 1e3;
    const span = this.#span;
    callSafely(() => {
      span?.setAttribute('steadlock.outcome', outcome);
      if (failure !== undefined && !NON_ERRORS.includes(outcome)) {
        span?.setAttribute('error.type', errorOf(failure).name);
        span?.setStatus({ code: api.SpanStatusCode.ERROR, message: failure.message });
      }
    });
    callSafely(() => span?.end());
    const labels = { 'steadlock.kind': this.#kind, 'steadlock.group': this.#groups.of(this.#lock) };
    callSafely(() => this.#sinks.waits.record(seconds, { ...labels, 'steadlock.outcome': outcome }, this.#context));
    return labels;
  }
}

class RecordedHold implements HoldSpan {
  readonly #since = performance.now();
  readonly #span: Span | undefined;
  readonly #context: Context;
  readonly #durations: Histogram;
  readonly #labels: Attributes;
  #hasEnded = false;

  constructor(span: Span | undefined, context: Context, durations: Histogram, labels: Attributes) {
    this.#span = span;
    this.#context = context;
    this.#durations = durations;
    this.#labels = labels;
  }

  end(outcome: string, lost?: LostReason): void {
    if (this.#hasEnded) return;
    this.#hasEnded = true;
    const seconds = (performance.now() - this.#since) / 1e3;
    const span = this.#span;
    callSafely(() => {
      span?.setAttribute('steadlock.outcome', outcome);
      // A release can be the first to find a loss: then its outcome is the reason.
      const why = lost ?? ERROR_REASONS.find((reason) => reason === outcome);
      if (why === undefined) return;
      span?.setAttribute('steadlock.reason', why);
      if (ERROR_REASONS.includes(why)) {
        span?.setStatus({ code: api.SpanStatusCode.ERROR, message: `the lease was lost: ${why}` });
      }
    });
    callSafely(() => span?.end());
    callSafely(() => this.#durations.record(seconds, this.#labels, this.#context));
  }
}

/**
 * A cache of the groups of lock names. It asks the core for each name that it does not have, and is emptied when it has
 * too many names.
 */
class Groups {
  readonly #known = new Map<string, string>();

  of({ name, engine }: WantedLock): string {
    const known = this.#known.get(name);
    if (known !== undefined) return known;
    const group = callSafely(() => engine.metricsGroup(name)) ?? 'other';
    if (this.#known.size === MAX_NAMES) this.#known.clear();
    this.#known.set(name, group);
    return group;
  }
}

const MAX_NAMES = 1_000;

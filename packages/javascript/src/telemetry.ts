// What a client tells of its acquisitions and leases, if somebody records them. No type of OpenTelemetry is here, so
// that a program without it needs none.

import type { LostReason } from './errors.js';
import type { NativeFailure } from './native.js';

/** Who records what one client does. None of its methods throws, nor do those of what they give. */
export interface Telemetry {
  /** A caller waits for a lock from now on, in the context that is current now. */
  waits(lock: WantedLock): WaitSpan;
}

/** A lock that is waited for. */
export interface WantedLock {
  readonly name: string;
  readonly address: string;
  readonly engine: { metricsGroup(name: string): string };
}

/** One wait, which ends once. */
export interface WaitSpan {
  /** The lock was granted; gives what follows the lease. It keeps neither the lease nor the client. */
  granted(lease: GrantedLease): HoldSpan;
  /** It was not. */
  failed(failure: NativeFailure): void;
  /** The caller's signal aborted. */
  cancelled(): void;
}

/** What is recorded of a lease. */
export interface GrantedLease {
  readonly token: number | null;
  readonly degraded: boolean;
}

/** One lease from its grant on. */
export interface HoldSpan {
  /** It was released, or lost for a reason. The first call counts. */
  end(outcome: string, lost?: LostReason): void;
}

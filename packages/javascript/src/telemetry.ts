// The interface by which a client reports its acquisitions and leases to telemetry. It uses no type of OpenTelemetry,
// so that a program without OpenTelemetry does not need its types.

import type { LostReason } from './errors.js';
import type { NativeFailure } from './native.js';

/** Records the waits and leases of one client. Neither its methods nor the methods of the spans throw. */
export interface Telemetry {
  /** Called when a caller starts to wait for a lock. The current context is that of the caller. */
  waits(lock: WantedLock): WaitSpan;
}

/** The lock for which a caller waits. */
export interface WantedLock {
  readonly name: string;
  readonly lock: { readonly kind: string };
  readonly engine: { metricsGroup(name: string): string };
}

/** The span of one wait. It ends once. */
export interface WaitSpan {
  /**
   * Called when the lock is granted. Returns the span of the hold. The returned span must refer neither to the lease
   * nor to the client, because both can be garbage while the lock is held.
   */
  granted(lease: GrantedLease): HoldSpan;
  /** Called when the acquisition failed. */
  failed(failure: NativeFailure): void;
  /** Called when the caller's signal aborted. */
  cancelled(): void;
}

/** The recorded properties of a lease. */
export interface GrantedLease {
  readonly token: number | null;
  readonly degraded: boolean;
}

/** The span of one lease, from its grant on. */
export interface HoldSpan {
  /** Called when the lease was released, or lost for a reason. Only the first call counts. */
  end(outcome: string, lost?: LostReason): void;
}

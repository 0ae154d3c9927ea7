import type { Lease } from './lease.js';
import type { LockOptions, OnUnavailable, PermitOptions } from './options.js';

/** One call of `lock()` or `tryLock()`. What is left out is the lock object's. */
export interface CallOptions extends PermitOptions {
  /** A lease on the same lock that the caller holds and enters again, with no server call. */
  readonly within?: Lease | undefined;
}

/** One call of `using()`. Its `signal` ends the wait for the lock, not the body. */
export interface UsingOptions extends LockOptions, CallOptions {}

/** Of a call of `using()` that runs its body or rejects, as far as its own options say. */
export interface NeverSkips {
  readonly onUnavailable?: Exclude<OnUnavailable, 'skip'> | undefined;
}

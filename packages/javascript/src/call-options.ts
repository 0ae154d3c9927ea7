import type { Lease } from './lease.js';
import type { LockOptions, OnUnavailable, PermitOptions } from './options.js';

/** The options of one call of `lock()` or `tryLock()`. An option that is left out is that of the lock object. */
export interface CallOptions extends PermitOptions {
  /**
   * A lease of the same lock that the caller holds. The call re-enters it, with no server call unless the new lease
   * must last longer.
   */
  readonly within?: Lease | undefined;
}

/** The options of one call of `using()`. Its `signal` ends the wait for the lock, not the body. */
export interface UsingOptions extends LockOptions, CallOptions {}

/** The options of a call of `using()` that never skips: by its own options it runs the body or rejects. */
export interface NeverSkips {
  readonly onUnavailable?: Exclude<OnUnavailable, 'skip'> | undefined;
}

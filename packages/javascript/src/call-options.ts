import type { Lease } from './lease.js';
import type { LockOptions, OnUnavailable, PermitOptions } from './options.js';

/**
 * The options of one call of `lock()` or `tryLock()`. An option that is left out has the value of the lock object,
 * except `waitMs` in `tryLock()`, whose default is 0.
 */
export interface CallOptions extends PermitOptions {
  /**
   * A lease of the same lock that the caller holds. The call re-enters the lock, with no server call unless the new
   * lease must last longer. For a read side, also a lease of its write side: the server then records a reader too.
   */
  readonly within?: Lease | undefined;
}

/** The options of one call of `using()`. Its `signal` ends the wait for the lock, not the body. */
export interface UsingOptions extends LockOptions, CallOptions {}

/** Excludes `skip` from the options of a call of `using()`, so that its result type does not include `undefined`. */
export interface NeverSkips {
  readonly onUnavailable?: Exclude<OnUnavailable, 'skip'> | undefined;
}

import { number } from './arguments.js';
import type { Engine, ReleaseOutcome } from './engine.js';
import { ClosedError, type LostReason, NotOwnerError } from './errors.js';
import { Hold } from './hold.js';
import { BELONGS_TO, END_SCOPE, HOLD, ID_IN, UNLOCK } from './internals.js';
import { isSameLock } from './kinds.js';
import { Named } from './named.js';
import type { NativeLock } from './native.js';

/** @internal The lock object through which a lease was acquired. */
export interface Origin {
  readonly engine: Engine;
  readonly name: string;
  /** The lock; for a semaphore, one permit. */
  readonly lock: NativeLock;
  /** The holds that were acquired through the lock object and are neither released nor lost. */
  readonly holds: Hold[];
}

/** The outcomes with which `unlock()` of a lock and `release()` of a semaphore succeed. */
export type Released = Exclude<ReleaseOutcome, 'expired' | 'stolen'>;

/**
 * A grant of a lock for a limited time: the result of `lock()` or `tryLock()` of a lock, or of `acquire()` or
 * `tryAcquire()` of a semaphore.
 *
 * The lease is valid until a deadline, which counts from a server call before the grant, not from the grant itself. The
 * renewals of an auto-renewed lease and `extend()` move the deadline. In Node leases are auto-renewed by default, and
 * renewal works also while the event loop is blocked. Garbage collection never releases a lease.
 */
export class Lease extends Named {
  readonly #engine: Engine;
  readonly #origin: Origin;
  readonly #hold: Hold;
  readonly #token: number | null;
  readonly #degraded: boolean;
  #released: Promise<ReleaseOutcome> | undefined;

  /** @internal */
  constructor(origin: Origin, id: number, token: number) {
    super(origin?.name, origin?.engine);
    this.#engine = origin.engine;
    this.#origin = origin;
    this.#hold = new Hold(id, origin.name, origin.holds);
    this.#token = token < 0 ? null : token;
    this.#degraded = token === DEGRADED;
  }

  /**
   * The fencing token: higher than the token of every earlier grant of this lock; a re-entry has the token of the first
   * grant. Pass it to the resource, which must refuse a token that is lower than one it has seen. Always below 2^53.
   * `null` for a lock with `fencing: false`, the read side of a read-write lock, semaphores, composite locks, RedLocks
   * and degraded leases.
   */
  get token(): number | null {
    return this.#token;
  }

  /**
   * Whether the lease excludes only other callers of this client, because the client granted it while its server was
   * unavailable (`onUnavailable: 'local'`). For a composite lock, whether this is so for any member. Never changes.
   */
  get degraded(): boolean {
    return this.#degraded;
  }

  /** The time until the deadline in milliseconds; 0 after the loss or the release. */
  get remainingMs(): number {
    return this.#isOver ? 0 : this.#engine.remainingMs(this.#hold.id);
  }

  /**
   * Whether the holder can rely on the lease now. Reads the clock, so the answer is right even directly after a pause
   * of the process.
   */
  get isValid(): boolean {
    return !this.#isOver && this.#engine.isValid(this.#hold.id);
  }

  /** The reason for the loss of the lease; `null` if no loss is known, or none was known before the release. */
  get lostReason(): LostReason | null {
    if (this.#hold.lost !== undefined) return this.#hold.lost;
    return this.#released ? null : this.#engine.lostReason(this.#hold.id);
  }

  /**
   * Aborts when the lease is lost, with a `LockLostError` as its reason. Never aborts after a release. Pass it to
   * everything that must stop when the lease is lost. In Node its listeners run in the context (`AsyncLocalStorage`) in
   * which the property was first read. While the lock is held, Node does not end a module whose top-level `await` waits
   * for this signal.
   */
  get signal(): AbortSignal {
    return this.#hold.signal;
  }

  /**
   * Extends the lease to `leaseMs` from now, and never shortens it. Without `leaseMs`, extends it to its own length
   * from now.
   *
   * @throws LockLostError if the lease is lost
   * @throws NotOwnerError if the lease was released
   * @throws UnavailableError if the server did not answer; the lease keeps its deadline
   */
  async extend(leaseMs?: number): Promise<void> {
    const byMs = number(leaseMs, 'leaseMs', 'extend');
    if (this.#released) {
      throw new NotOwnerError('the lease was released before; acquire the lock again', {
        lockName: this.name,
        operation: 'extend',
      });
    }
    const failure = await this.#engine.extend(this.#hold.id, byMs);
    if (failure) throw failure.error();
  }

  /**
   * Releases the lock and returns the outcome. A second call returns the same outcome and releases nothing.
   *
   * - `released`: the lock was held until the release, or an outer lease of a re-entry still holds it
   * - `expired`: the server had no record of the lease any more, or the lease was lost before as `expired`, `removed`
   *   or `max_hold`
   * - `stolen`: the record belongs to another owner, who keeps it
   * - `unknown`: the server did not answer in time; the release is retried in the background until the record has
   *   expired
   *
   * The `close()` of a client releases its locks. After a close, this method returns the outcome of that release.
   *
   * @throws MisconfiguredError if the server does not permit its user to release the lock; the release is retried in
   * the background until the record has expired
   */
  release(): Promise<ReleaseOutcome> {
    if (this.#released === undefined) {
      // The reason must be read before the release, because the engine then forgets the lease.
      this.#hold.onRelease(this.#engine.lostReason(this.#hold.id));
      this.#released = this.#engine.release(this.#hold);
    }
    return this.#released;
  }

  /**
   * Releases the lease at the end of an `await using` block. This method cannot know whether the body of the block
   * failed. If the body failed and the lease was lost as well, JavaScript throws a `SuppressedError` of both, whose
   * `suppressed` is the body's error. `client.using()` throws the body's error itself.
   *
   * @throws LockLostError if the lease was lost in the block
   * @throws MisconfiguredError if the server does not permit its user to release the lock
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this[END_SCOPE](false);
  }

  /**
   * @internal Releases the lease at the end of a scope. Throws if the lease was lost in the scope, unless the body
   * failed.
   */
  async [END_SCOPE](bodyFailed: boolean): Promise<void> {
    await this.release().catch((error: unknown) => {
      // The error of the loss, thrown below, says more than the error of the release.
      if (!bodyFailed && this.#hold.lost === undefined) throw error;
    });
    if (bodyFailed) return;
    const reason = this.#hold.lost ?? this.#hold.lostAtRelease;
    if (reason !== undefined) throw this.#hold.lostError(reason, 'release');
  }

  /** @internal Releases the lease for `unlock()`, which reports a loss as an error. */
  async [UNLOCK](): Promise<Released> {
    const { lost, isForgotten } = this.#hold;
    // For a lease of a closed client, the caller gets the `ClosedError` below.
    if (isForgotten && lost !== 'closed') {
      throw new NotOwnerError(`the lease was lost (${lost}), so there is nothing to release; acquire the lock again`, {
        lockName: this.name,
        operation: 'release',
      });
    }
    const isClosed = this.#engine.isClosed;
    const outcome = await this.release();
    if (isClosed) {
      throw new ClosedError('the client was closed, which released the lock', {
        lockName: this.name,
        operation: 'release',
      });
    }
    const reason = this.#hold.lostAtRelease;
    if (reason !== undefined) throw this.#hold.lostError(reason, 'release');
    return outcome as Released;
  }

  /** @internal The state of the lease. */
  get [HOLD](): Hold {
    return this.#hold;
  }

  /** @internal Returns the number of the lease in the engine, if it belongs to this engine. */
  [ID_IN](engine: Engine): number | undefined {
    return engine === this.#engine ? this.#hold.id : undefined;
  }

  /** @internal Whether the lease belongs to the lock of this lock object. */
  [BELONGS_TO](lock: Origin): boolean {
    return lock.engine === this.#engine && isSameLock(lock.lock, this.#origin.lock);
  }

  get #isOver(): boolean {
    return this.#released !== undefined || this.#hold.lost !== undefined;
  }
}

/** The number in place of a token that marks a degraded lease: see `bindings/javascript/src/rows.rs`. */
const DEGRADED = -2;

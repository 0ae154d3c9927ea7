import { number } from './arguments.js';
import type { Engine, ReleaseOutcome } from './engine.js';
import { ClosedError, type LostReason, NotOwnerError } from './errors.js';
import { Hold } from './hold.js';
import { HOLD, ID_IN, IS_OF, LEAVE, UNLOCK } from './internals.js';
import { Named } from './named.js';

/** @internal The lock object that a lease was taken through. */
export interface Origin {
  readonly engine: Engine;
  readonly name: string;
  /** Which lock; of a semaphore, that of one permit. */
  readonly address: string;
  /** What was taken through it, and neither released nor lost. */
  readonly holds: Hold[];
}

/** How `unlock()` of a lock and `release()` of a semaphore end well. */
export type Released = Exclude<ReleaseOutcome, 'expired' | 'stolen'>;

/**
 * The right to a lock for a limited time, from `lock()` or `tryLock()` of a lock,
 * or from `acquire()` or `tryAcquire()` of a semaphore.
 *
 * It is valid until a deadline that counts from before the server was asked.
 * One that is renewed is so until it is released; in Node, where that is the default, also while the event loop is
 * blocked. Garbage collection never releases it.
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
   * The fencing token: higher than that of every earlier grant of this lock.
   * Hand it to the resource, which refuses a lower one than it has seen. Always
   * below 2^53. `null` if the lock was made with `fencing: false`, and for the read side of a
   * read-write lock, for semaphores, for several locks as one, and for a degraded lease.
   */
  get token(): number | null {
    return this.#token;
  }

  /**
   * Whether it excludes others of this client alone, and nobody else: its server was unavailable, and it was granted
   * without, as `onUnavailable: 'local'` says. Never changes. Of several locks as one, whether any of them does.
   */
  get degraded(): boolean {
    return this.#degraded;
  }

  /** What is left until the deadline, in milliseconds; 0 once lost or released. */
  get remainingMs(): number {
    return this.#isOver ? 0 : this.#engine.remainingMs(this.#hold.id);
  }

  /** Whether the lock is held now. Reads the clock, so that it is right at once after a pause. */
  get isValid(): boolean {
    return !this.#isOver && this.#engine.isValid(this.#hold.id);
  }

  /** Why the lease was lost; `null` if it was not. */
  get lostReason(): LostReason | null {
    if (this.#hold.lost !== undefined) return this.#hold.lost;
    return this.#released ? null : this.#engine.lostReason(this.#hold.id);
  }

  /**
   * Aborts when the lease is lost, with a `LockLostError` as its reason. Never
   * aborts after a release. Pass it to whatever must stop then. In Node its listeners
   * run in the context (`AsyncLocalStorage`) in which it was first asked for, and a
   * module whose top-level `await` waits for it is not ended while the lock is held.
   */
  get signal(): AbortSignal {
    return this.#hold.signal;
  }

  /**
   * Makes the lease last `leaseMs` from now, if that is later than it lasts
   * already; without `leaseMs`, its own length.
   *
   * @throws LockLostError if it is lost
   * @throws NotOwnerError if it was released
   * @throws UnavailableError if the server did not answer; the lease stays as it is
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
   * Gives the lock back and says what became of it. The second time it gives
   * the same answer and frees nothing.
   *
   * - `released`: it was held to the end, or an outer lease of a re-entry still holds it
   * - `expired`: the server had no record of it any more, or its deadline had come
   * - `stolen`: the record is another owner's, who keeps it
   * - `unknown`: the server did not answer in time; the library retries until the lease has passed
   *
   * After `close()` of the client, which released the lock, it says what that came to.
   *
   * @throws MisconfiguredError if the server's user may not release it; the library retries until the lease has passed
   */
  release(): Promise<ReleaseOutcome> {
    if (this.#released === undefined) {
      // Read now: the engine forgets a lease that is released.
      this.#hold.onRelease(this.#engine.lostReason(this.#hold.id));
      this.#released = this.#engine.release(this.#hold);
    }
    return this.#released;
  }

  /**
   * Releases at the end of an `await using` block. A block is left without a word
   * of how its body ended. So if that failed and the lease was lost as well,
   * JavaScript throws a `SuppressedError` of both, whose `suppressed` is the
   * body's error. `client.using()` throws the body's error itself.
   *
   * @throws LockLostError if the lease was lost meanwhile
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this[LEAVE](false);
  }

  /** @internal Releases at the end of a scope, which fails if the lease was lost in it, unless its body failed. */
  async [LEAVE](bodyFailed: boolean): Promise<void> {
    await this.release().catch((error: unknown) => {
      // That the lease is lost says more.
      if (!bodyFailed && this.#hold.lost === undefined) throw error;
    });
    if (bodyFailed) return;
    const reason = this.#hold.lost ?? this.#hold.lostAtRelease;
    if (reason !== undefined) throw this.#hold.lostError(reason, 'release');
  }

  /** @internal Releases for `unlock()`, which tells of a loss. */
  async [UNLOCK](): Promise<Released> {
    const { lost, isForgotten } = this.#hold;
    // To release what a closed client held says that it is closed.
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

  /** @internal What is known of it until it is lost or released. */
  get [HOLD](): Hold {
    return this.#hold;
  }

  /** @internal Its number in the engine, if the engine is this one. */
  [ID_IN](engine: Engine): number | undefined {
    return engine === this.#engine ? this.#hold.id : undefined;
  }

  /** @internal Whether it is of the lock that this lock object means. */
  [IS_OF](lock: Origin): boolean {
    return lock.engine === this.#engine && lock.address === this.#origin.address;
  }

  get #isOver(): boolean {
    return this.#released !== undefined || this.#hold.lost !== undefined;
  }
}

/** What stands for the token of a degraded lease: see `bindings/javascript/src/rows.rs`. */
const DEGRADED = -2;

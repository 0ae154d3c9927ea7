import { number } from './arguments.js';
import type { Engine, ReleaseOutcome } from './engine.js';
import { InvalidArgumentError, LockLostError, type LostReason, NotOwnerError } from './errors.js';
import { Named } from './named.js';

/** @internal The lock object that a lease was taken through. */
export interface Origin {
  readonly engine: Engine;
  readonly name: string;
  /** Which lock; of a semaphore, that of one permit. */
  readonly address: string;
  /** Its leases that nobody has released. */
  readonly unsettled: Lease[];
}

/**
 * The right to a lock for a limited time, from `lock()` or `tryLock()` of a lock,
 * or from `acquire()` or `tryAcquire()` of a semaphore.
 *
 * It is valid until a deadline that counts from before the server was asked.
 * Unless it was taken with `leaseMs` and without `renew`, the library renews it until it is
 * released, also while the event loop is blocked. Garbage collection never
 * releases it.
 */
export class Lease extends Named {
  readonly #engine: Engine;
  readonly #origin: Origin;
  readonly #id: number;
  readonly #token: number;
  #released: Promise<ReleaseOutcome> | undefined;
  #lost: LostReason | undefined;
  #controller: AbortController | undefined;

  /** @internal */
  constructor(origin: Origin, id: number, token: number) {
    super(origin.name);
    this.#engine = origin.engine;
    this.#origin = origin;
    this.#id = id;
    this.#token = token;
    origin.unsettled.push(this);
  }

  /**
   * The fencing token: higher than that of every earlier grant of this lock.
   * Hand it to the resource, which refuses a lower one than it has seen.
   * `null` if the lock was made with `token: false`, and for the read side of a
   * read-write lock, for semaphores, and for several locks as one.
   */
  get token(): bigint | null {
    return this.#token < 0 ? null : BigInt(this.#token);
  }

  /** What is left until the deadline, in milliseconds; 0 once lost or released. */
  get remainingMs(): number {
    return this.#given ? 0 : this.#engine.remainingMs(this.#id);
  }

  /** Whether the lock is held now. Reads the clock, so that it is right at once after a pause. */
  get isValid(): boolean {
    return !this.#given && this.#engine.isValid(this.#id);
  }

  /** Why the lease was lost; `null` if it was not. */
  get lostReason(): LostReason | null {
    if (this.#lost !== undefined) return this.#lost;
    return this.#released ? null : this.#engine.lostReason(this.#id);
  }

  /**
   * Aborts when the lease is lost, with a `LockLostError` as its reason. Never
   * aborts after a release. Pass it to whatever must stop then.
   */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#lost !== undefined) this.#controller.abort(this.#lostError(this.#lost));
    }
    return this.#controller.signal;
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
    const byMs = number(leaseMs, 'leaseMs');
    if (this.#released) {
      throw new NotOwnerError('the lease was released already; take the lock again', {
        lockName: this.name,
        operation: 'extend',
      });
    }
    const failure = await this.#engine.extend(this.#id, byMs);
    if (failure) throw this.explain(failure.error(this.lostReason));
  }

  /**
   * Gives the lock back and says what became of it. The second time it gives
   * the same answer and frees nothing.
   *
   * - `released`: it was held to the end, or an outer lease of a re-entry still holds it
   * - `expired`: the server had no record of it any more, or its deadline had come
   * - `stolen`: the record is another owner's, who keeps it
   * - `unknown`: the server did not answer in time; the library tries on until the lease has passed
   *
   * @throws ClosedError if the client was closed before
   * @throws MisconfiguredError if the server's user may not release it; the library tries on until the lease has passed
   */
  release(): Promise<ReleaseOutcome> {
    if (this.#released === undefined) {
      // Read now: the engine forgets a lease that is given back.
      this.#lost ??= this.#engine.lostReason(this.#id) ?? undefined;
      // From the end: what was taken last is released first.
      this.#settle(this.#origin.unsettled.lastIndexOf(this));
      this.#released = this.#engine.release(this.#id).then((outcome) => this.#outcome(outcome));
    }
    return this.#released;
  }

  /** The engine does not know any more how a lease was lost that it has forgotten. */
  #outcome(answered: ReleaseOutcome): ReleaseOutcome {
    if (answered !== 'released' || this.#lost === undefined || this.#lost === 'closed') return answered;
    return this.#lost === 'stolen' ? 'stolen' : 'expired';
  }

  /** Nobody has to release it any more. */
  #settle(place: number): void {
    if (place >= 0) this.#origin.unsettled.splice(place, 1);
  }

  /**
   * Releases at the end of an `await using` block.
   *
   * @throws LockLostError if the lease was lost meanwhile
   */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.leave(false);
  }

  /** @internal Releases at the end of a scope, which fails if the lease was lost in it, unless its body failed. */
  async leave(bodyFailed: boolean): Promise<void> {
    const outcome = await this.release().catch((error: unknown) => {
      // A closed client answers no release; that the lease is lost says more.
      if (!bodyFailed && this.#lost === undefined) throw error;
    });
    if (bodyFailed) return;
    const lost = this.#lost ?? (outcome === 'expired' || outcome === 'stolen' ? outcome : undefined);
    if (lost !== undefined) throw this.#lostError(lost);
  }

  /** @internal */
  onLost(reason: LostReason, isForgotten: boolean): void {
    this.#lost = reason;
    // From the start: what was taken first lapses first. Of a closed client a release says that it is closed.
    if (isForgotten && reason !== 'closed') this.#settle(this.#origin.unsettled.indexOf(this));
    this.#controller?.abort(this.#lostError(reason));
  }

  /** @internal Says of a lost lease that it is lost, where the engine, which forgot it, says that there is none. */
  explain(failed: Error): Error {
    const isForgotten = failed instanceof InvalidArgumentError || failed instanceof NotOwnerError;
    return this.#lost !== undefined && isForgotten ? this.#lostError(this.#lost) : failed;
  }

  /** @internal Its number in the engine, if the engine is this one. */
  idIn(engine: Engine): number | undefined {
    return engine === this.#engine ? this.#id : undefined;
  }

  /** @internal Whether it is of the lock that this lock object means. */
  isOf(lock: Origin): boolean {
    return lock.engine === this.#engine && lock.address === this.#origin.address;
  }

  get #given(): boolean {
    return this.#released !== undefined || this.#lost !== undefined;
  }

  #lostError(reason: LostReason): LockLostError {
    const message = `lost lock ${this.shownName} (${reason}); stop, and take it again`;
    return new LockLostError(message, { lockName: this.name, reason });
  }
}

import { callOptions, objectOptions, reasonOf, remaining, signal } from './arguments.js';
import type { CallOptions } from './call-options.js';
import { watchForSelfWait } from './context.js';
import type { Engine } from './engine.js';
import { type Holder, InvalidArgumentError, NotOwnerError } from './errors.js';
import { Failure } from './inbox.js';
import { ACQUIRE, BELONGS_TO, ID_IN, LOCK_IN, SHOWN_NAME, UNLOCK } from './internals.js';
import { Lease, type Origin, type Released } from './lease.js';
import { Named } from './named.js';
import type { NativeLock } from './native.js';
import type { LockOptions } from './options.js';

/** @internal The failures for which an acquisition returns `null` instead of an error. */
export type NullIf = 'refused' | 'skipped' | undefined;

/**
 * A lock, from a method of a client. A lock object is cheap to make and immutable.
 *
 * Two calls on one object exclude each other like calls on two objects, because JavaScript does not know the identity
 * of a caller. To acquire a lock again while it is held, pass the held lease as `within`. A mutex, a RedLock, a
 * composite lock and permits cannot be re-entered.
 */
export class Lock extends Named {
  readonly #options: LockOptions;
  readonly #origin: Origin;
  readonly #wanted: NativeLock;

  /** @internal A call acquires `wanted`, which differs from `lock` only for several permits of a semaphore. */
  constructor(engine: Engine, lock: NativeLock, options: LockOptions | undefined, wanted = lock) {
    super(lock?.name, engine);
    this.#options = { ...objectOptions(options) };
    this.#origin = { engine, name: lock.name, lock, holds: [] };
    this.#wanted = wanted;
  }

  /**
   * Acquires the lock, and waits for it if another owner holds it.
   *
   * @returns the lease
   * @throws LockTimeoutError if another owner held the lock for `waitMs`
   * @throws UnavailableError if the server did not answer; at once while its circuit breaker is open, unless the client
   * grants a degraded lease; with `skipped` true if `onUnavailable` is `skip`
   * @throws InvalidArgumentError for a name, number or word out of its range; nothing was sent
   * @throws LockLostError if the lease given as `within` is lost
   * @throws MisconfiguredError if the key holds something else, such as a lock of another kind
   * @throws `signal.reason` if `signal` aborts; the lock is then not held
   */
  lock(options?: CallOptions): Promise<Lease> {
    // Never null: a refusal throws.
    return this[ACQUIRE](options, undefined) as Promise<Lease>;
  }

  /**
   * Acquires the lock if it is free, or becomes free within `waitMs`. The default of `waitMs` is 0, even if the lock
   * object has a `waitMs`.
   *
   * @returns the lease; `null` if another owner holds the lock, or the lock is skipped
   * @throws UnavailableError if the server did not answer; at once while its circuit breaker is open, unless the lock
   * is skipped or the client grants a degraded lease
   * @throws InvalidArgumentError for a name, number or word out of its range; nothing was sent
   * @throws LockLostError if the lease given as `within` is lost
   * @throws MisconfiguredError if the key holds something else, such as a lock of another kind
   * @throws `signal.reason` if `signal` aborts; the lock is then not held
   */
  tryLock(options?: CallOptions): Promise<Lease | null> {
    return this[ACQUIRE](options, 'refused');
  }

  /**
   * Releases `lease`, which was acquired through this object or another object of the same lock. `lease.release()` does
   * the same, but does not reject for a loss.
   *
   * @returns `released`, or `unknown` if the server did not answer in time: the release is retried in the background
   * until the record has expired
   * @throws LockLostError if the lease was lost, also if the release is the first to find that
   * @throws NotOwnerError if the lease belongs to another lock, or is a fixed lease whose loss was reported already;
   * nothing was sent
   * @throws InvalidArgumentError if `lease` is not a lease, such as the `null` of a `tryLock()`; nothing was sent
   * @throws ClosedError if the client was closed before
   * @throws MisconfiguredError if the server does not permit its user to release the lock; the release is retried in
   * the background until the record has expired
   */
  async unlock(lease: Lease): Promise<Released> {
    return this.#own(lease)[UNLOCK]();
  }

  /**
   * Asks the server whether the lock is held. The answer can be out of date when it arrives.
   *
   * @throws UnavailableError if the server did not answer
   * @throws InvalidArgumentError for a lock of `multiLock`: ask its members
   */
  async isLocked(): Promise<boolean> {
    return (await this.holder()) !== null;
  }

  /**
   * Asks the server for the holder of the lock, with its program and machine, and for how long it holds the lock if
   * nothing renews it; `null` if the lock is free. If there are several readers or holders of permits, returns the one
   * whose record ends last. The answer can be out of date when it arrives.
   *
   * @throws UnavailableError if the server did not answer
   * @throws InvalidArgumentError for a lock of `multiLock`: ask its members
   */
  holder(): Promise<Holder | null> {
    return this.#origin.engine.holder(this.#origin.lock);
  }

  /** Whether a lease that was acquired through this object is valid now. Makes no server call. */
  isHeld(): boolean {
    const { engine, holds } = this.#origin;
    return holds.some(({ id }) => engine.isValid(id));
  }

  /** @internal Acquires what is wanted, which can be more permits than this object stands for. */
  async [ACQUIRE](
    options: CallOptions | undefined,
    nullIf: NullIf,
    wanted: NativeLock = this.#wanted,
  ): Promise<Lease | null> {
    const given = callOptions(options);
    const own = this.#options;
    const origin = this.#origin;
    const within = given?.within === undefined ? undefined : this.#within(given.within);
    const canceller = signal(given?.signal);
    if (canceller?.aborted) throw reasonOf(canceller);
    const { inbox } = origin.engine;
    const request = inbox.native.acquire(
      wanted,
      given?.waitMs ?? (nullIf === 'refused' ? 0 : own.waitMs),
      given?.leaseMs ?? own.leaseMs,
      // `leaseMs` and `renew` belong together: if the call sets `leaseMs`, that lease is fixed unless the call sets
      // `renew` too.
      given?.renew ?? (given?.leaseMs === undefined && (own.renew ?? false)),
      given?.maxHoldMs ?? own.maxHoldMs,
      within,
      own.fencing ?? true,
      given?.onUnavailable ?? own.onUnavailable,
      remaining(given?.remainingMs ?? own.remainingMs),
    );
    const span = origin.engine.telemetry?.waits(origin);
    const isUnbounded = nullIf !== 'refused' && (given?.waitMs ?? own.waitMs) === undefined;
    const stopWatching =
      isUnbounded && within === undefined ? watchForSelfWait(inbox.native, wanted, this[SHOWN_NAME]) : undefined;
    const asked = inbox.lease(request, (id, token) => new Lease(origin, id, token), canceller, span);
    const answer = await (stopWatching === undefined ? asked : asked.finally(stopWatching));
    if (!(answer instanceof Failure)) return answer;
    if (nullIf !== undefined && answer[nullIf]) return null;
    throw answer.error();
  }

  /** @internal Returns what this object acquires, if it belongs to this engine. */
  [LOCK_IN](engine: Engine): NativeLock | undefined {
    return engine === this.#origin.engine ? this.#wanted : undefined;
  }

  #within(lease: Lease): number {
    const id = lease instanceof Lease ? lease[ID_IN](this.#origin.engine) : undefined;
    if (id !== undefined) return id;
    throw new InvalidArgumentError('within must be a lease of this client', {
      lockName: this.name,
      operation: 'acquire',
    });
  }

  #own(lease: Lease): Lease {
    const details = { lockName: this.name, operation: 'release' } as const;
    if (!(lease instanceof Lease)) {
      throw new InvalidArgumentError(
        'release needs a lease of this lock; pass the one that the lock returned',
        details,
      );
    }
    if (!lease[BELONGS_TO](this.#origin)) {
      throw new NotOwnerError(`the lease is of another lock, ${lease[SHOWN_NAME]}`, details);
    }
    return lease;
  }
}

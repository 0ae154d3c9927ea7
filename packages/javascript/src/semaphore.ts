import { count } from './arguments.js';
import type { Engine } from './engine.js';
import { ACQUIRE, PERMIT } from './internals.js';
import { permitsOf } from './kinds.js';
import type { Lease, Released } from './lease.js';
import { Lock, type NullIf } from './lock.js';
import { Named } from './named.js';
import type { NativeLock } from './native.js';
import type { AcquireOptions, PermitOptions } from './options.js';

/**
 * A semaphore, from `client.semaphore(name, limit)`: a limited number of permits, held by leases.
 *
 * While any permit is held, the server keeps the limit; `client.setLimit` changes the limit. The permits of a process
 * that died become free when their leases end. Not reentrant: every call acquires further permits. Leases have no
 * token.
 */
export class Semaphore extends Named {
  /** The number of permits, as the program gave it. */
  readonly limit: number;
  readonly #engine: Engine;
  readonly #one: NativeLock;
  readonly #options: AcquireOptions | undefined;
  readonly #permit: Lock;

  /** @internal */
  constructor(engine: Engine, name: string, limit: number, options: AcquireOptions | undefined) {
    super(name, engine);
    this.limit = count(limit, 'the limit', 'acquire');
    this.#engine = engine;
    this.#one = permitsOf(name, 1, this.limit);
    this.#options = options && { ...options };
    this.#permit = new Lock(engine, this.#one, options);
  }

  /**
   * Acquires permits, all or none, with one lease, and waits until they are free.
   *
   * @param permits their number: 1 to 1,000, and no more than the limit; default 1
   * @returns the lease of all these permits
   * @throws LockTimeoutError if too few permits became free within `waitMs`
   * @throws MisconfiguredError while permits are held under another limit
   * @throws UnavailableError if the server did not answer. While its circuit breaker is open, the call fails at once,
   * even if `onUnavailable` is `local`; `skipped` is true if `onUnavailable` is `skip`
   * @throws InvalidArgumentError for a name, number or word out of its range; nothing was sent
   * @throws `signal.reason` if `signal` aborts; no permit is then held
   */
  acquire(permits?: number, options?: PermitOptions): Promise<Lease> {
    // Never null: a refusal throws.
    return this.#take(permits, options, undefined) as Promise<Lease>;
  }

  /**
   * Acquires permits, all or none, if they are free, or become free within `waitMs`. The default of `waitMs` is 0, even
   * if the semaphore object has a `waitMs`.
   *
   * @param permits their number: 1 to 1,000, and no more than the limit; default 1
   * @returns the lease of all these permits; `null` if too few are free, or the semaphore is skipped
   * @throws MisconfiguredError while permits are held under another limit
   * @throws UnavailableError if the server did not answer; at once while its circuit breaker is open, unless
   * `onUnavailable` is `skip`
   * @throws InvalidArgumentError for a name, number or word out of its range; nothing was sent
   * @throws `signal.reason` if `signal` aborts; no permit is then held
   */
  tryAcquire(permits?: number, options?: PermitOptions): Promise<Lease | null> {
    return this.#take(permits, options, 'refused');
  }

  /**
   * Releases the permits of `lease`, which was acquired through this object or another object of the same semaphore.
   *
   * @returns as `Lock.unlock` does
   * @throws as `Lock.unlock` does: `LockLostError`, `NotOwnerError`, `InvalidArgumentError`
   */
  release(lease: Lease): Promise<Released> {
    return this.#permit.unlock(lease);
  }

  /**
   * Asks the server how many permits are free. The answer can be out of date when it arrives. While permits are held,
   * the limit on the server counts, not the limit of this object.
   *
   * @throws UnavailableError if the server did not answer
   * @throws InvalidArgumentError for a name or limit out of its range; nothing was sent
   */
  async available(): Promise<number> {
    return (await this.#engine.freePermits(this.#one)) ?? this.limit;
  }

  /**
   * Returns permits as a lock object, for `client.multiLock`. The lock has this object's options, is not reentrant, and
   * counts as locked while any permit of the semaphore is held.
   *
   * @param permits their number: 1 to 1,000, and no more than the limit; checked when the lock is used
   * @throws InvalidArgumentError if `permits` is not a number
   */
  permits(permits: number): Lock {
    const wanted = permitsOf(this.name, count(permits, 'permits', 'acquire'), this.limit);
    return new Lock(this.#engine, this.#one, this.#options, wanted);
  }

  /** @internal One permit, as a lock. */
  get [PERMIT](): Lock {
    return this.#permit;
  }

  async #take(permits: number | undefined, options: PermitOptions | undefined, nullIf: NullIf): Promise<Lease | null> {
    const number = permits === undefined ? 1 : count(permits, 'permits', 'acquire');
    const wanted = number === 1 ? this.#one : permitsOf(this.name, number, this.limit);
    return this.#permit[ACQUIRE](options, nullIf, wanted);
  }
}

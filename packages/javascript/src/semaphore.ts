import { count } from './arguments.js';
import type { Engine } from './engine.js';
import { ACQUIRE, PERMIT } from './internals.js';
import { permitsAddress } from './kinds.js';
import type { Lease, Released } from './lease.js';
import { Lock, type NullIf } from './lock.js';
import { Named } from './named.js';
import type { AcquireOptions, PermitOptions } from './options.js';

/**
 * A semaphore, from `client.semaphore(name, limit)`: so many permits, each held
 * by a lease.
 *
 * The limit is agreed on the server while any permit is held, and changed by
 * `client.setLimit`. Permits of a process that died come back when their lease
 * ends. Not reentrant: every call takes new permits. Its leases have no token.
 */
export class Semaphore extends Named {
  /** How many permits there are. */
  readonly limit: number;
  readonly #engine: Engine;
  readonly #address: string;
  readonly #options: AcquireOptions | undefined;
  readonly #permit: Lock;

  /** @internal */
  constructor(engine: Engine, name: string, limit: number, options: AcquireOptions | undefined) {
    super(name, engine);
    this.limit = count(limit, 'the limit', 'acquire');
    this.#engine = engine;
    this.#address = permitsAddress(1, this.limit, name);
    this.#options = options && { ...options };
    this.#permit = new Lock(engine, name, this.#address, options);
  }

  /**
   * Waits for permits and takes them, all or none, by one lease.
   *
   * @param permits how many: 1 to 1,000, and no more than the limit; 1 unless said
   * @returns the lease of all of them together
   * @throws LockTimeoutError if too few were free for `waitMs`
   * @throws MisconfiguredError while permits are held that agreed on another limit
   * @throws UnavailableError if the server did not answer; at once while its circuit breaker is open, also if
   * `onUnavailable` is `local`; with `skipped` true if it is `skip`
   * @throws InvalidArgumentError for a name, number or word out of range; nothing was sent
   * @throws `signal.reason` if `signal` aborts; no permit is then held
   */
  acquire(permits?: number, options?: PermitOptions): Promise<Lease> {
    // Never null: a refusal is thrown.
    return this.#take(permits, options, undefined) as Promise<Lease>;
  }

  /**
   * Takes permits, all or none, if they are free, or become free within
   * `waitMs`, which is 0 unless this call gives it.
   *
   * @param permits how many: 1 to 1,000, and no more than the limit; 1 unless said
   * @returns the lease of all of them together, or `null` if too few are free, or they are skipped
   * @throws MisconfiguredError while permits are held that agreed on another limit
   * @throws UnavailableError if the server did not answer; at once while its circuit breaker is open, also if
   * `onUnavailable` is `local`
   * @throws InvalidArgumentError for a name, number or word out of range; nothing was sent
   * @throws `signal.reason` if `signal` aborts; no permit is then held
   */
  tryAcquire(permits?: number, options?: PermitOptions): Promise<Lease | null> {
    return this.#take(permits, options, 'refused');
  }

  /**
   * Releases the permits of `lease`, which was taken through this object or
   * another one of the same semaphore.
   *
   * @returns as `Lock.unlock` does
   * @throws as `Lock.unlock` does: `LockLostError`, `NotOwnerError`, `InvalidArgumentError`
   */
  release(lease: Lease): Promise<Released> {
    return this.#permit.unlock(lease);
  }

  /**
   * How many permits are free. Asks the server; the answer may be old when it
   * arrives. While permits are held, their limit counts, not this object's.
   *
   * @throws UnavailableError if the server did not answer
   * @throws InvalidArgumentError for a name or limit out of range; nothing was sent
   */
  async available(): Promise<number> {
    return (await this.#engine.freePermits(this.#address)) ?? this.limit;
  }

  /**
   * Permits as a lock object, as `client.multiLock` takes it. It has this
   * object's options, cannot be entered again, and is locked if anybody holds any
   * permit.
   *
   * @param permits how many: 1 to 1,000, and no more than the limit; checked when it is used
   * @throws InvalidArgumentError for something else than a number
   */
  permits(permits: number): Lock {
    const wanted = permitsAddress(count(permits, 'permits', 'acquire'), this.limit, this.name);
    return new Lock(this.#engine, this.name, this.#address, this.#options, wanted);
  }

  /** @internal One permit, as a lock. */
  get [PERMIT](): Lock {
    return this.#permit;
  }

  async #take(permits: number | undefined, options: PermitOptions | undefined, nullIf: NullIf): Promise<Lease | null> {
    const wanted = permits === undefined ? 1 : count(permits, 'permits', 'acquire');
    const address = wanted === 1 ? this.#address : permitsAddress(wanted, this.limit, this.name);
    return this.#permit[ACQUIRE](options, nullIf, address);
  }
}

import { callOptions, objectOptions, reasonOf, remaining, signal } from './arguments.js';
import type { CallOptions } from './call-options.js';
import { watchForSelfWait } from './context.js';
import type { Engine } from './engine.js';
import { type Holder, InvalidArgumentError, NotOwnerError } from './errors.js';
import { Failure } from './inbox.js';
import { ACQUIRE, ADDRESS_IN, ID_IN, IS_OF, SHOWN_NAME, UNLOCK } from './internals.js';
import { Lease, type Origin, type Released } from './lease.js';
import { Named } from './named.js';
import type { LockOptions } from './options.js';

/** @internal Which failures are no error of an acquisition, but give `null`. */
export type NullIf = 'refused' | 'skipped' | undefined;

/**
 * A lock by its kind and name, from a client. Cheap to make, and never changes.
 *
 * Two calls on one object exclude each other like calls on two: Node has no
 * notion of who is calling. To enter a lock again that is held already, pass
 * the held lease as `within`; a mutex, and several locks as one, cannot be
 * entered again.
 */
export class Lock extends Named {
  readonly #options: LockOptions;
  readonly #origin: Origin;
  readonly #address: string;

  /** @internal `wanted` is the address of what is taken, where one lock has several: permits of a semaphore. */
  constructor(engine: Engine, name: string, address: string, options: LockOptions | undefined, wanted = address) {
    super(name, engine);
    this.#options = { ...objectOptions(options) };
    this.#origin = { engine, name, address, holds: [] };
    this.#address = wanted;
  }

  /**
   * Waits for the lock and takes it.
   *
   * @returns the lease
   * @throws LockTimeoutError if another holder kept it for `waitMs`
   * @throws UnavailableError if the server did not answer; at once while its circuit breaker is open, with `skipped`
   * true if `onUnavailable` is `skip`
   * @throws InvalidArgumentError for a name, number or word out of range; nothing was sent
   * @throws LockLostError if `within` is lost
   * @throws MisconfiguredError if the key holds something else, such as a lock of another kind
   * @throws `signal.reason` if `signal` aborts; the lock is then not held
   */
  lock(options?: CallOptions): Promise<Lease> {
    // Never null: a refusal is thrown.
    return this[ACQUIRE](options, undefined) as Promise<Lease>;
  }

  /**
   * Acquires the lock if it is free, or becomes free within `waitMs`, which is 0
   * unless this call gives it.
   *
   * @returns the lease, or `null` if another holder has it, or it is skipped
   * @throws UnavailableError if the server did not answer; at once while its circuit breaker is open
   * @throws InvalidArgumentError for a name, number or word out of range; nothing was sent
   * @throws LockLostError if `within` is lost
   * @throws MisconfiguredError if the key holds something else, such as a lock of another kind
   * @throws `signal.reason` if `signal` aborts; the lock is then not held
   */
  tryLock(options?: CallOptions): Promise<Lease | null> {
    return this[ACQUIRE](options, 'refused');
  }

  /**
   * Releases `lease`, which was taken through this object or another one of the
   * same lock. `lease.release()` does the same and rejects for no loss.
   *
   * @returns `released`, or `unknown` if the server did not answer in time: the library retries until the lease has
   * passed
   * @throws LockLostError if the lease was lost, or the release finds that it is
   * @throws NotOwnerError if the lease is of another lock, or a fixed one that expired and whose loss was told; nothing
   * was sent
   * @throws InvalidArgumentError for something else than a lease, as what a failed `tryLock()` gave; nothing was sent
   * @throws ClosedError if the client was closed before
   * @throws MisconfiguredError if the server's user may not release it; the library retries until the lease has passed
   */
  async unlock(lease: Lease): Promise<Released> {
    return this.#own(lease)[UNLOCK]();
  }

  /**
   * Whether anybody holds the lock. Asks the server; the answer may be old when it arrives.
   *
   * @throws UnavailableError if the server did not answer
   * @throws InvalidArgumentError for several locks as one: ask each of them
   */
  async isLocked(): Promise<boolean> {
    return (await this.holder()) !== null;
  }

  /**
   * Who holds the lock, which program on which machine that is, and for how long if nothing renews it; `null` if it is
   * free. Of several readers, or of holders of permits, the one whose record ends
   * last. Asks the server; the answer may be old when it arrives.
   *
   * @throws UnavailableError if the server did not answer
   * @throws InvalidArgumentError for several locks as one: ask each of them
   */
  holder(): Promise<Holder | null> {
    return this.#origin.engine.holder(this.#origin.address);
  }

  /** Whether a lease that was acquired through this object is valid now. A local check. */
  isHeld(): boolean {
    const { engine, holds } = this.#origin;
    return holds.some(({ id }) => engine.isValid(id));
  }

  /** @internal Takes what the address says, which may be more permits than this object's own. */
  async [ACQUIRE](
    options: CallOptions | undefined,
    nullIf: NullIf,
    address: string = this.#address,
  ): Promise<Lease | null> {
    const given = callOptions(options);
    const own = this.#options;
    const origin = this.#origin;
    const within = given?.within === undefined ? undefined : this.#within(given.within);
    const canceller = signal(given?.signal);
    if (canceller?.aborted) throw reasonOf(canceller);
    const { inbox } = origin.engine;
    const request = inbox.native.acquire(
      address,
      given?.waitMs ?? (nullIf === 'refused' ? 0 : own.waitMs),
      given?.leaseMs ?? own.leaseMs,
      // A lease and who renews it go together: a call's own one is fixed unless the call says otherwise.
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
      isUnbounded && within === undefined ? watchForSelfWait(inbox.native, address, this[SHOWN_NAME]) : undefined;
    const asked = inbox.lease(request, (id, token) => new Lease(origin, id, token), canceller, span);
    const answer = await (stopWatching === undefined ? asked : asked.finally(stopWatching));
    if (!(answer instanceof Failure)) return answer;
    if (nullIf !== undefined && answer[nullIf]) return null;
    throw answer.error();
  }

  /** @internal Its address, if the engine is this one. */
  [ADDRESS_IN](engine: Engine): string | undefined {
    return engine === this.#origin.engine ? this.#address : undefined;
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
      throw new InvalidArgumentError('what is released is a lease of this lock; pass the one that you got', details);
    }
    if (!lease[IS_OF](this.#origin)) {
      throw new NotOwnerError(`the lease is of another lock, ${lease[SHOWN_NAME]}`, details);
    }
    return lease;
  }
}

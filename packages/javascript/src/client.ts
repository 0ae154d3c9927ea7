import { count, list, lockName, object, splitOptions } from './arguments.js';
import type { CallOptions, NeverSkips, UsingOptions } from './call-options.js';
import { placeOfNow, whileHolding } from './context.js';
import type { Emitter } from './emitter.js';
import { Engine } from './engine.js';
import { InvalidArgumentError, type Operation } from './errors.js';
import { ACQUIRE, ADDRESS_IN, ENGINE_OF, LEAVE, PERMIT } from './internals.js';
import { addressOf, multiAddress, type NamedKind, permitsAddress } from './kinds.js';
import type { Lease } from './lease.js';
import { Lock } from './lock.js';
import { notMadeByHand } from './named.js';
import type { AcquireOptions, LockOptions } from './options.js';
import { ReadWriteLock } from './read-write-lock.js';
import { Semaphore } from './semaphore.js';

/** What runs while a lock is held. `signal` aborts when the lease is lost. */
export type Body<T> = (lease: Lease, signal: AbortSignal) => T | PromiseLike<T>;

/**
 * A connection to the locks of one server, from `connect()`, or of several
 * primaries, from `redlock()`. One for each process is enough.
 *
 * An idle client does not keep the process alive, nor does a lock that is held.
 * When a process of Node ends normally its locks are released; elsewhere they end with their leases.
 */
export class Client {
  readonly #engine: Engine;

  /** @internal */
  constructor(engine: Engine) {
    if (!(engine instanceof Engine)) throw notMadeByHand('Client');
    this.#engine = engine;
  }

  /**
   * Tells of losses, failing renewals and lost connections, for a log:
   * `client.events.on('disconnected', ({ message }) => console.warn(message))`.
   * Nothing is computed for what nobody listens to, and listeners do not keep
   * the process alive.
   */
  get events(): Emitter {
    return this.#engine.observations.emitter;
  }

  /**
   * The lock of this name, reentrant by `within`. Nothing is sent.
   *
   * @param name 1 to 512 bytes of UTF-8; every client that uses it means the same lock
   * @param options what its calls use unless they say otherwise
   * @throws InvalidArgumentError for a name or option of the wrong type
   */
  lock(name: string, options?: LockOptions): Lock {
    return this.#named('lock', name, options);
  }

  /**
   * The simple lock of this name, in the layout of most other lock libraries: it
   * excludes those of the same key, so that a team can move one service at a
   * time. Not reentrant: a call that names its lease as `within` is refused with
   * `InvalidArgumentError`, and one that does not waits for itself. A name is a
   * lock's or a mutex's: each finds the other's record to be `MisconfiguredError`.
   * Nothing is sent.
   *
   * @param name as for `lock`
   * @param options what its calls use unless they say otherwise
   * @throws InvalidArgumentError for a name or option of the wrong type
   */
  mutex(name: string, options?: LockOptions): Lock {
    return this.#named('mutex', name, options);
  }

  /**
   * The lock of this name whose waiters are served in order of arrival, whatever
   * their process. Reentrant by `within`. It excludes `lock(name)`, whose waiters
   * may overtake. Nothing is sent.
   *
   * @param name as for `lock`
   * @param options what its calls use unless they say otherwise
   * @throws InvalidArgumentError for a name or option of the wrong type
   */
  fairLock(name: string, options?: LockOptions): Lock {
    return this.#named('fair_lock', name, options);
  }

  /**
   * The read-write lock of this name: `read` and `write` are its two sides, each
   * a lock object. Nothing is sent.
   *
   * @param name as for `lock`
   * @param options what the calls of both sides use unless they say otherwise
   * @throws InvalidArgumentError for a name or option of the wrong type
   */
  readWriteLock(name: string, options?: LockOptions): ReadWriteLock {
    const read = this.#named('read_lock', name, options);
    const write = this.#named('write_lock', name, options);
    return new ReadWriteLock(this.#engine, read, write);
  }

  /**
   * The semaphore of this name. Nothing is sent.
   *
   * @param name as for `lock`
   * @param limit how many permits there are, 1 to 1,000,000, checked when it is used; all clients give the same
   * @param options what its calls use unless they say otherwise
   * @throws InvalidArgumentError for a name, limit or option of the wrong type
   */
  semaphore(name: string, limit: number, options?: AcquireOptions): Semaphore {
    return new Semaphore(this.#engine, lockName(name, 'acquire'), limit, options);
  }

  /**
   * Several locks as one lock object: its lease holds all of them, and when one
   * is lost, all are. Kinds may be mixed; a semaphore stands for one of its
   * permits, and `Semaphore.permits` gives more of them. They are taken in the
   * order of their keys, so that two clients never wait for each other. The lease
   * has no token, and cannot be entered again. The locks' own options do not
   * count. Nothing is sent; that no lock is named, or one twice, or one that is
   * several itself, is refused when it is used.
   *
   * @param locks lock objects of this client
   * @param options what its calls use unless they say otherwise
   * @throws InvalidArgumentError for something else than lock objects of this client
   */
  multiLock(locks: Iterable<Lock | Semaphore>, options?: AcquireOptions): Lock {
    const members = list(locks, 'the locks', 'acquire').map((lock) => this.#own(lock, 'acquire'));
    const names = members.map(({ lock }) => lock.name);
    const addresses = members.map(({ address }) => address);
    return new Lock(this.#engine, names.join(', '), multiAddress(addresses), options);
  }

  /**
   * Takes a lock from its holder; of a semaphore, all permits; of a read
   * side, from all readers. For operators: a holder goes on until its next
   * renewal tells it of the loss.
   *
   * @param lock a lock object of this client, not several as one
   * @returns whether anybody held it
   * @throws UnavailableError if the server did not answer; look then whether it is still held
   * @throws InvalidArgumentError for something else than a lock object of this client; nothing was sent
   */
  async forceRelease(lock: Lock | Semaphore): Promise<boolean> {
    return this.#engine.forceRelease(this.#own(lock, 'release').address);
  }

  /**
   * Changes the limit of a semaphore. For operators: who holds permits keeps
   * them; while more are held than the new limit allows, none is granted. From
   * then on who asks with the old limit gets `MisconfiguredError`.
   *
   * @param name the semaphore's name, as for `lock`
   * @param limit how many permits there are from now on, 1 to 1,000,000
   * @returns whether it was changed: while nobody holds a permit there is no limit to change, and the next one to
   * take some brings its own
   * @throws UnavailableError if the server did not answer; ask again then, it is idempotent
   * @throws InvalidArgumentError for a name or limit out of range; nothing was sent
   */
  async setLimit(name: string, limit: number): Promise<boolean> {
    return this.#engine.setLimit(
      permitsAddress(1, count(limit, 'the limit', 'set_limit'), lockName(name, 'set_limit')),
    );
  }

  /**
   * Runs `body` while holding a lock, and returns what it returns.
   *
   * @param target a name, for the lock of that name, or a lock object of this client; of a semaphore, one permit
   * @returns what `body` returns; `undefined`, without running it, if the lock was skipped, as `onUnavailable: 'skip'`
   * says. Types know of that from the call's own options alone: where the client or the lock object skips, give it to
   * the call too
   * @throws what `body` throws, whatever became of the lock
   * @throws LockLostError if `body` ended well, but the lock was lost meanwhile
   * @throws whatever `lock()` throws, if the lock was neither granted nor skipped; `body` did not run then
   */
  using<T>(target: string | Lock | Semaphore, body: Body<T>): Promise<T>;
  using<T>(target: string, options: (UsingOptions & NeverSkips) | undefined, body: Body<T>): Promise<T>;
  using<T>(target: Lock | Semaphore, options: (CallOptions & NeverSkips) | undefined, body: Body<T>): Promise<T>;
  using<T>(target: string, options: UsingOptions | undefined, body: Body<T>): Promise<T | undefined>;
  using<T>(target: Lock | Semaphore, options: CallOptions | undefined, body: Body<T>): Promise<T | undefined>;
  async using<T>(
    target: string | Lock | Semaphore,
    optionsOrBody: UsingOptions | undefined | Body<T>,
    maybeBody?: Body<T>,
  ): Promise<T | undefined> {
    const body = typeof optionsOrBody === 'function' ? optionsOrBody : maybeBody;
    const options = typeof optionsOrBody === 'function' ? undefined : object(optionsOrBody, 'the options', 'acquire');
    if (typeof body !== 'function') {
      throw new InvalidArgumentError('using needs a function to run', { operation: 'acquire' });
    }
    if (body === optionsOrBody && maybeBody !== undefined) {
      throw new InvalidArgumentError('the function of using comes last; call using(lock, options, function)', {
        operation: 'acquire',
      });
    }
    const [ofObject, ofCall] = typeof target === 'string' ? splitOptions(options) : [undefined, options];
    const lock = typeof target === 'string' ? this.lock(target, ofObject) : this.#own(target, 'acquire').lock;
    const place = placeOfNow();
    const lease = await lock[ACQUIRE](ofCall, 'skipped');
    if (lease === null) return undefined;
    let result: T;
    try {
      const address = lock[ADDRESS_IN](this.#engine) as string;
      const { native } = this.#engine.inbox;
      result = await whileHolding(native, address, lease, place, () => body(lease, lease.signal));
    } catch (error) {
      // The body's own error says more than whatever the release may add.
      await lease[LEAVE](true);
      throw error;
    }
    await lease[LEAVE](false);
    return result;
  }

  /**
   * Closes the client: what waits rejects with `ClosedError`, leases that are
   * held are lost with reason `closed` and then released. Done within 500 ms.
   * Closing is idempotent.
   */
  close(): Promise<void> {
    return this.#engine.close();
  }

  /**
   * What this client has counted since it was made, in Prometheus' text format, to be served with the content type
   * `text/plain; version=0.0.4`. A local look that asks no server; also of a client that was closed.
   * docs/metrics.md says what there is.
   *
   * @throws InvalidArgumentError if the client was made without `metrics: true`
   */
  metrics(): string {
    return this.#engine.metrics();
  }

  /** Whether `close` was called. */
  get closed(): boolean {
    return this.#engine.isClosed;
  }

  /** Closes at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal The engine of a client; `undefined` of something else. */
  static [ENGINE_OF](client: unknown): Engine | undefined {
    return client instanceof Client ? client.#engine : undefined;
  }

  #named(kind: NamedKind, name: string, options: LockOptions | undefined): Lock {
    const checked = lockName(name, 'acquire');
    return new Lock(this.#engine, checked, addressOf(kind, checked), options);
  }

  #own(lock: Lock | Semaphore, operation: Operation): { lock: Lock; address: string } {
    const one = lock instanceof Semaphore ? lock[PERMIT] : lock;
    const address = one instanceof Lock ? one[ADDRESS_IN](this.#engine) : undefined;
    if (address === undefined) {
      throw new InvalidArgumentError('what is locked must be a lock object of this client', { operation });
    }
    return { lock: one, address };
  }
}

import { count, list, lockName, object, splitOptions } from './arguments.js';
import type { CallOptions, NeverSkips, UsingOptions } from './call-options.js';
import { callSite, whileHolding } from './context.js';
import type { Emitter } from './emitter.js';
import { Engine } from './engine.js';
import { InvalidArgumentError, type Operation } from './errors.js';
import { ACQUIRE, END_SCOPE, ENGINE_OF, LOCK_IN, PERMIT } from './internals.js';
import { compositeOf, type NamedKind, permitsOf } from './kinds.js';
import type { Lease } from './lease.js';
import { Lock } from './lock.js';
import { notConstructible } from './named.js';
import type { NativeLock } from './native.js';
import type { AcquireOptions, LockOptions } from './options.js';
import { ReadWriteLock } from './read-write-lock.js';
import { Semaphore } from './semaphore.js';

/** A function that runs while a lock is held. `signal` aborts when the lease is lost. */
export type Body<T> = (lease: Lease, signal: AbortSignal) => T | PromiseLike<T>;

/**
 * A client of one server, from `connect()`, or of several primaries, from `redlock()`. One client per process is
 * enough.
 *
 * Neither an idle client nor a held lock keeps the process alive. When a Node process ends normally, its locks are
 * released; on other platforms they end with their leases.
 */
export class Client {
  readonly #engine: Engine;

  /** @internal */
  constructor(engine: Engine) {
    if (!(engine instanceof Engine)) throw notConstructible('Client');
    this.#engine = engine;
  }

  /**
   * The emitter of events such as losses, failing renewals and lost connections, for a log:
   * `client.events.on('disconnected', ({ message }) => console.warn(message))`. Without a listener nothing is computed.
   * Listeners do not keep the process alive.
   */
  get events(): Emitter {
    return this.#engine.observations.emitter;
  }

  /**
   * Returns the lock of this name. The lock is reentrant by the option `within`, except with `redlock`. Makes no server
   * call.
   *
   * @param name 1 to 512 bytes of UTF-8; the same name means the same lock in every client
   * @param options the defaults of its calls
   * @throws InvalidArgumentError for a name or option of the wrong type
   */
  lock(name: string, options?: LockOptions): Lock {
    return this.#named('lock', name, options);
  }

  /**
   * Returns the mutex of this name. A mutex has the record layout of most other lock libraries, and excludes their
   * locks of the same key, so a team can migrate one service at a time. It is not reentrant: a call with `within` is
   * refused with `InvalidArgumentError`, and a holder that calls without `within` waits for its own release. Use a name
   * either for a lock or for a mutex: acquiring one while the other is held fails with `MisconfiguredError`, except
   * with `redlock`. Makes no server call.
   *
   * @param name as for `lock`
   * @param options the defaults of its calls
   * @throws InvalidArgumentError for a name or option of the wrong type
   */
  mutex(name: string, options?: LockOptions): Lock {
    return this.#named('mutex', name, options);
  }

  /**
   * Returns the fair lock of this name, which serves waiters in order of arrival, across all processes. Reentrant by
   * the option `within`. Excludes `lock(name)`, whose waiters can overtake those of the fair lock. Makes no server
   * call.
   *
   * @param name as for `lock`
   * @param options the defaults of its calls
   * @throws InvalidArgumentError for a name or option of the wrong type
   */
  fairLock(name: string, options?: LockOptions): Lock {
    return this.#named('fair_lock', name, options);
  }

  /**
   * Returns the read-write lock of this name. Its two sides, `read` and `write`, are lock objects. Makes no server
   * call.
   *
   * @param name as for `lock`
   * @param options the defaults of the calls of both sides
   * @throws InvalidArgumentError for a name or option of the wrong type
   */
  readWriteLock(name: string, options?: LockOptions): ReadWriteLock {
    const read = this.#named('read_lock', name, options);
    const write = this.#named('write_lock', name, options);
    return new ReadWriteLock(this.#engine, read, write);
  }

  /**
   * Returns the semaphore of this name. Makes no server call.
   *
   * @param name as for `lock`
   * @param limit the number of permits, 1 to 1,000,000, checked when the semaphore is used; all clients must give the
   * same limit
   * @param options the defaults of its calls
   * @throws InvalidArgumentError for a name, limit or option of the wrong type
   */
  semaphore(name: string, limit: number, options?: AcquireOptions): Semaphore {
    return new Semaphore(this.#engine, lockName(name, 'acquire'), limit, options);
  }

  /**
   * Returns a composite lock: its lease holds all members, and is lost when one of them is lost. Members are acquired
   * in the order of their keys, so two composite locks cannot deadlock. Kinds can be mixed; a semaphore stands for one
   * permit, and `Semaphore.permits` gives more. The lease has no token, and the composite lock is not reentrant. The
   * members' own options are ignored. Makes no server call. A composite lock without members, with one member twice, or
   * with a composite lock as a member is refused when it is used.
   *
   * @param locks lock objects of this client
   * @param options the defaults of its calls
   * @throws InvalidArgumentError for a member that is not a lock object of this client
   */
  multiLock(locks: Iterable<Lock | Semaphore>, options?: AcquireOptions): Lock {
    const members = list(locks, 'the locks', 'acquire').map((lock) => this.#own(lock, 'acquire'));
    return new Lock(this.#engine, compositeOf(members.map(({ wanted }) => wanted)), options);
  }

  /**
   * Removes the record of a lock, so that its holder loses the lock; for a semaphore, the records of all permits; for a
   * read side, those of all readers. For operators: the holder goes on until its next renewal finds the loss, or with a
   * fixed lease until its deadline.
   *
   * @param lock a lock object of this client, but not one of `multiLock`
   * @returns whether the lock was held
   * @throws UnavailableError if the server did not answer; check whether the lock is still held
   * @throws InvalidArgumentError for any other `lock`; nothing was sent
   */
  async forceRelease(lock: Lock | Semaphore): Promise<boolean> {
    return this.#engine.forceRelease(this.#own(lock, 'release').wanted);
  }

  /**
   * Changes the limit of a semaphore while permits of it are held. For operators: holders keep their permits, also
   * those above the new limit, and further permits are granted only within the new limit. While permits are held,
   * acquisitions with the old limit fail with `MisconfiguredError`.
   *
   * @param name the semaphore's name, as for `lock`
   * @param limit the number of permits from now on, 1 to 1,000,000
   * @returns whether the limit was changed: while no permit is held there is no limit to change, and the next
   * acquisition sets its own limit
   * @throws UnavailableError if the server did not answer; call again, because the call is idempotent
   * @throws InvalidArgumentError for a name or limit out of range; nothing was sent
   */
  async setLimit(name: string, limit: number): Promise<boolean> {
    return this.#engine.setLimit(permitsOf(lockName(name, 'set_limit'), 1, count(limit, 'the limit', 'set_limit')));
  }

  /**
   * Runs `body` while it holds a lock, and returns the result of `body`.
   *
   * @param target the name of a lock, or a lock object of this client; for a semaphore, one permit is acquired
   * @returns the result of `body`; `undefined`, without a run of `body`, if the lock was skipped by
   * `onUnavailable: 'skip'`. The return type includes `undefined` only if the options of the call allow `skip`. If the
   * client or the lock object has that setting, give it to the call too, so that the type includes `undefined`
   * @throws the error of `body`, even if the lock was lost or its release failed
   * @throws LockLostError if `body` succeeded but the lock was lost meanwhile
   * @throws MisconfiguredError if `body` succeeded but the server does not permit its user to release the lock
   * @throws the error of `lock()`, if the lock was neither granted nor skipped; `body` did not run
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
    const site = callSite();
    const lease = await lock[ACQUIRE](ofCall, 'skipped');
    if (lease === null) return undefined;
    let result: T;
    try {
      const wanted = lock[LOCK_IN](this.#engine) as NativeLock;
      const { native } = this.#engine.inbox;
      result = await whileHolding(native, wanted, lease, site, () => body(lease, lease.signal));
    } catch (error) {
      // The error of the body says more than an error of the release.
      await lease[END_SCOPE](true);
      throw error;
    }
    await lease[END_SCOPE](false);
    return result;
  }

  /**
   * Closes the client: waiters reject with `ClosedError`; held leases are lost with the reason `closed` and then
   * released. Takes at most 500 ms. A second call does nothing.
   */
  close(): Promise<void> {
    return this.#engine.close();
  }

  /**
   * Returns the counts of this client since it was made, in Prometheus' text format. Serve them with the content type
   * `text/plain; version=0.0.4`. Makes no server call, and works for a closed client too. See docs/metrics.md for the
   * list.
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

  /** Closes the client at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }

  /** @internal Returns the engine of a client; `undefined` if the value is not a client. */
  static [ENGINE_OF](client: unknown): Engine | undefined {
    return client instanceof Client ? client.#engine : undefined;
  }

  #named(kind: NamedKind, name: string, options: LockOptions | undefined): Lock {
    return new Lock(this.#engine, { kind, name: lockName(name, 'acquire') }, options);
  }

  #own(lock: Lock | Semaphore, operation: Operation): { lock: Lock; wanted: NativeLock } {
    const one = lock instanceof Semaphore ? lock[PERMIT] : lock;
    const wanted = one instanceof Lock ? one[LOCK_IN](this.#engine) : undefined;
    if (wanted === undefined) {
      throw new InvalidArgumentError('the lock must be a lock object of this client', { operation });
    }
    return { lock: one, wanted };
  }
}

import { object } from './arguments.js';
import { Engine } from './engine.js';
import { InvalidArgumentError } from './errors.js';
import type { Lease } from './lease.js';
import { Lock } from './lock.js';
import type { ConnectOptions, LockOptions, UsingOptions } from './options.js';

/** What runs while a lock is held. `signal` aborts when the lease is lost. */
export type Body<T> = (lease: Lease, signal: AbortSignal) => T | PromiseLike<T>;

/**
 * Connects to the server that keeps the locks.
 *
 * - `redis://host:6379/0`, `rediss://` with TLS, `redis+unix:///path`: Redis 6.2 or Valkey 7.2 and later
 * - `memory://`: a store inside this client, for tests and trying things out;
 *   `memory://name` is shared within the process. It excludes nobody outside.
 *
 * @param url the server; left out, the environment's `LEASEHOLD_URL`
 * @throws UnavailableError if the server cannot be reached within `connectTimeoutMs`
 * @throws MisconfiguredError if there is no URL, or the server is not one that locks can work with
 * @throws InvalidArgumentError for a malformed URL or an option out of range
 */
export async function connect(url?: string, options?: ConnectOptions): Promise<Client> {
  return new Client(await Engine.open(url, options));
}

/**
 * A connection to the locks of one server, from `connect()`. One for each
 * process is enough.
 *
 * An idle client does not keep the process alive, nor does a lock that is held.
 * When the process ends normally its locks are released.
 */
export class Client {
  readonly #engine: Engine;

  /** @internal */
  constructor(engine: Engine) {
    this.#engine = engine;
  }

  /**
   * A lock object. Nothing is sent.
   *
   * @param name 1 to 512 bytes of UTF-8; every client that uses it means the same lock
   * @param options what its calls use unless they say otherwise
   * @throws InvalidArgumentError for a name or option of the wrong type
   */
  lock(name: string, options?: LockOptions): Lock {
    return new Lock(this.#engine, name, options);
  }

  /**
   * Runs `body` while holding the lock, and returns what it returns.
   *
   * @throws what `body` throws, whatever became of the lock
   * @throws LockLostError if `body` ended well, but the lock was lost meanwhile
   * @throws whatever `lock()` throws, if the lock was not granted; `body` did not run then
   */
  using<T>(name: string, body: Body<T>): Promise<T>;
  using<T>(name: string, options: UsingOptions | undefined, body: Body<T>): Promise<T>;
  async using<T>(name: string, optionsOrBody: UsingOptions | undefined | Body<T>, maybeBody?: Body<T>): Promise<T> {
    const body = typeof optionsOrBody === 'function' ? optionsOrBody : maybeBody;
    const options = typeof optionsOrBody === 'function' ? undefined : object(optionsOrBody, 'the options');
    if (typeof body !== 'function') throw new InvalidArgumentError('using needs a function to run');
    const lease = await this.lock(name, options).lock({ signal: options?.signal, within: options?.within });
    let result: T;
    try {
      result = await body(lease, lease.signal);
    } catch (error) {
      // The body's own error says more than whatever the release may add.
      await lease.release().catch(() => {});
      throw error;
    }
    await lease.leave();
    return result;
  }

  /**
   * Closes the client: what waits rejects with `ClosedError`, leases that are
   * held are lost with reason `closed` and then released. Done within 500 ms.
   * Closing twice is harmless.
   */
  close(): Promise<void> {
    return this.#engine.close();
  }

  /** Closes at the end of an `await using` block. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

import { address, clientOptions, object, type Servers, wrongType } from './arguments.js';
import { Client } from './client.js';
import { Engine } from './engine.js';
import type { NativeReached } from './native.js';
import type { AddressFunction, ConnectOptions } from './options.js';

/**
 * Connects to the server that stores the locks.
 *
 * - `redis://host:6379/0`, `redis+unix:///path`: Redis 6.2 or Valkey 7.2 and later
 * - `redis+sentinel://host:26379,host/service/0`: the primary that the sentinels name
 * - `redis+cluster://host:6379,host`: a cluster
 * - `rediss://`, `rediss+sentinel://`, `rediss+cluster://`: the same with TLS; `valkey` is accepted in place of `redis`
 * - `memory://`: a store inside this client, for tests and experiments; the store of `memory://name` is shared within
 *   the process. Neither store excludes other processes
 *
 * @param url the server, as text or as a `URL`; default the environment variable `STEADLOCK_URL`
 * @throws UnavailableError if the server cannot be reached within `connectTimeoutMs`
 * @throws MisconfiguredError if there is no URL, if locks cannot work with the server, or if one side does not accept
 * the other's certificate
 * @throws InvalidArgumentError for a malformed URL or an option out of its range
 */
export async function connect(url?: string | URL, options?: ConnectOptions): Promise<Client> {
  return open(oneServer(url), options);
}

/**
 * Connects to several independent primaries, an odd number from 3 to 15, none a replica of another. Every lock of this
 * client is a RedLock: a majority of the primaries holds it, so it survives the failure of a minority.
 *
 * `lock(name)` and `mutex(name)` both return a RedLock, and are the same lock; other kinds are refused with
 * `InvalidArgumentError` when they are used. A RedLock is not reentrant, and its leases have no token.
 *
 * The guarantee requires that a primary which restarts without its data stays away for as long as the longest lease. An
 * acquisition whose wait ends without replies of a majority rejects with `UnavailableError`.
 *
 * @param urls the primaries, as texts or `URL`s, each as for `connect`, but no `memory://` without a name;
 * `STEADLOCK_URL` is not used
 * @param options as for `connect`, the same for each primary
 * @throws UnavailableError if no majority can be reached within `connectTimeoutMs`
 * @throws MisconfiguredError if a primary is listed twice, or locks cannot work with one of them
 * @throws InvalidArgumentError for an even number of primaries, a malformed URL or an option out of its range
 */
export async function redlock(urls: readonly (string | URL)[], options?: ConnectOptions): Promise<Client> {
  return open(severalPrimaries(urls), options);
}

async function open(servers: Servers, options: ConnectOptions | undefined): Promise<Client> {
  return new Client(await Engine.open(clientOptions(servers, options), addressFunction(options)));
}

/** Returns the server of a client in the form of the native library. */
function oneServer(url: unknown): Servers {
  // The core cannot read the variable itself: a worker thread has an environment of its own, which only JavaScript
  // sees.
  return { url: url === undefined ? process.env.STEADLOCK_URL || undefined : address(url, 'the URL') };
}

/** Returns the primaries of a client in the form of the native library. The core checks their number. */
function severalPrimaries(urls: unknown): Servers {
  if (!Array.isArray(urls)) throw wrongType('the URLs', 'an array of strings', urls, 'connect');
  return { primaries: Array.from(urls, (url: unknown) => address(url, 'each of the URLs')) };
}

/**
 * If `addressMap` is a function, returns it in the form of the native library. The returned function never throws.
 */
function addressFunction(options: ConnectOptions | undefined): ((announced: string) => NativeReached) | undefined {
  const given: unknown = object(options, 'the options', 'connect')?.addressMap;
  if (typeof given !== 'function') return undefined;
  return (announced) => {
    try {
      const address: unknown = (given as AddressFunction)(announced);
      if (address === undefined || address === null) return {};
      return typeof address === 'string' ? { address } : { failure: 'it returned neither a string nor null' };
    } catch (thrown) {
      // The message of the error could contain a secret, so only its name is shown.
      return { failure: `it threw ${nameOf(thrown)}` };
    }
  };
}

/** Returns the name of an error. The name can be any value, even a getter that throws. */
function nameOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? String(thrown.name) : typeof thrown;
  } catch {
    return 'an error';
  }
}

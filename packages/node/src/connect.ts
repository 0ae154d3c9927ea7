import { address, clientOptions, object, type Servers, wrong } from './arguments.js';
import { Client } from './client.js';
import { Engine } from './engine.js';
import type { NativeReached } from './native.js';
import type { AddressFunction, ConnectOptions } from './options.js';

/**
 * Connects to the server that keeps the locks.
 *
 * - `redis://host:6379/0`, `redis+unix:///path`: Redis 6.2 or Valkey 7.2 and later
 * - `redis+sentinel://host:26379,host/service/0`: the primary that the sentinels name
 * - `redis+cluster://host:6379,host`: a cluster
 * - `rediss://`, `rediss+sentinel://`, `rediss+cluster://`: the same with TLS; `valkey` may stand for `redis`
 * - `memory://`: a store inside this client, for tests and trying things out;
 *   `memory://name` is shared within the process. It excludes nobody outside.
 *
 * @param url the server, as text or as a `URL`; left out or `undefined`, the environment's `STEADLOCK_URL`
 * @throws UnavailableError if the server cannot be reached within `connectTimeoutMs`
 * @throws MisconfiguredError if there is no URL, the server is not one that locks can work with, or one side does
 * not accept the other's certificate
 * @throws InvalidArgumentError for a malformed URL or an option out of range
 */
export async function connect(url?: string | URL, options?: ConnectOptions): Promise<Client> {
  return open(oneServer(url), options);
}

/**
 * Connects to several independent primaries, an odd number from 3 to 15, none a
 * replica of another. Every lock of this client is a RedLock: a majority of them
 * holds it, and it goes on while a minority is down.
 *
 * `lock(name)` and `mutex(name)` both give it, and mean the same lock; other
 * kinds are refused with `InvalidArgumentError` when they are used. It is not
 * reentrant, and its leases have no token.
 *
 * The promise holds while a primary that restarts without its data stays away
 * for the longest lease. A lock whose wait ends without a majority of answers
 * rejects with `UnavailableError`.
 *
 * @param urls the primaries, as texts or `URL`s, each as for `connect`, but none a `memory://` without a name; `STEADLOCK_URL` does not count
 * @param options as for `connect`, the same for each primary
 * @throws UnavailableError if no majority can be reached within `connectTimeoutMs`
 * @throws MisconfiguredError if a primary is listed twice, or one is not a server that locks can work with
 * @throws InvalidArgumentError for an even number of primaries, a malformed URL or an option out of range
 */
export async function redlock(urls: readonly (string | URL)[], options?: ConnectOptions): Promise<Client> {
  return open(severalPrimaries(urls), options);
}

async function open(servers: Servers, options: ConnectOptions | undefined): Promise<Client> {
  return new Client(await Engine.open(clientOptions(servers, options), addressFunction(options)));
}

/** The server of a client as the native library takes it. */
function oneServer(url: unknown): Servers {
  // Workers have an environment of their own, which only JavaScript sees.
  return { url: url === undefined ? process.env.STEADLOCK_URL || undefined : address(url, 'the URL') };
}

/** The primaries of a client as the native library takes them. How many there are is the core's business. */
function severalPrimaries(urls: unknown): Servers {
  if (!Array.isArray(urls)) throw wrong('the URLs', 'an array of strings', urls, 'connect');
  return { primaries: Array.from(urls, (url: unknown) => address(url, 'each of the URLs')) };
}

/** The function of `addressMap` as the native library calls it, if it is one. It never throws. */
function addressFunction(options: ConnectOptions | undefined): ((announced: string) => NativeReached) | undefined {
  const given: unknown = object(options, 'the options', 'connect')?.addressMap;
  if (typeof given !== 'function') return undefined;
  return (announced) => {
    try {
      const address: unknown = (given as AddressFunction)(announced);
      if (address === undefined || address === null) return {};
      return typeof address === 'string' ? { address } : { failure: 'it gave neither a string nor null' };
    } catch (thrown) {
      // Its text is the program's own, and may hold anything.
      return { failure: `it threw ${nameOf(thrown)}` };
    }
  };
}

/** What was thrown, by name; a name may be anything, also a getter that throws. */
function nameOf(thrown: unknown): string {
  try {
    return thrown instanceof Error ? String(thrown.name) : typeof thrown;
  } catch {
    return 'an error';
  }
}

import { invalid, wrappedClient, wrongClientAdvice } from './adapter-arguments.js';
import { clientOptions, object, type Servers, wrongType } from './arguments.js';
import { Client } from './client.js';
import { Engine } from './engine.js';
import { textOf } from './error-text.js';
import { InvalidArgumentError, MisconfiguredError, type SteadlockError, UnavailableError } from './errors.js';
import type { ConnectOptions as AllOptions } from './options.js';
import type { RedisClient } from './redis-client.js';
import { CoreUnreachableError, hasCustomSource, load } from './wasm.js';

/** The options that only a client with its own connections can support. */
const CONNECTION_OPTIONS = ['tlsCaFile', 'tlsCertFile', 'tlsKeyFile', 'tlsServerName', 'addressMap'] as const;

/** The options of a client. An option that is left out has its default. The default of `renew` is false. */
export type ConnectOptions = Omit<AllOptions, (typeof CONNECTION_OPTIONS)[number]>;

/**
 * Makes a client that uses the program's own Redis client. Checks that the server runs scripts; with `lazy`, at the
 * first use.
 *
 * Leases are fixed unless `renew` is true here, for the lock or for the call. This package renews leases with the
 * host's timers. A busy event loop or a page in the background delays these timers, and on a serverless host they end
 * with the request that made them.
 *
 * @param redis the program's client: the result of an adapter, or your own implementation, see `RedisClient`
 * @throws UnavailableError if the server did not answer within `connectTimeoutMs`, or the core's file could not be
 * fetched
 * @throws MisconfiguredError if the server refuses to run scripts, if keys or replies are changed on their way, or if
 * the core's file is not beside its script, as in some bundles
 * @throws InvalidArgumentError if `redis` is no `RedisClient`, or for an option out of its range
 */
export async function connect(redis: RedisClient, options?: ConnectOptions): Promise<Client> {
  const client = redisClient(redis);
  return open([client], { url: url(client) }, options);
}

/**
 * Makes a client of several independent primaries, an odd number from 3 to 15, none a replica of another. Every lock of
 * this client is a RedLock: a majority of the primaries holds it, so it survives the failure of a minority.
 *
 * `lock(name)` and `mutex(name)` both return a RedLock, and are the same lock; other kinds are refused with
 * `InvalidArgumentError` when they are used. A RedLock is not reentrant, and its leases have no token.
 *
 * @param clients a `RedisClient` for each primary, with different names. The program must make sure that they lead to
 * different servers: a server with two clients would count twice
 * @param options as for `connect`, the same for each primary
 * @throws UnavailableError if no majority can be reached within `connectTimeoutMs`
 * @throws MisconfiguredError if two clients have the same name, or a server refuses to run scripts
 * @throws InvalidArgumentError for an even number of primaries, or an option out of its range
 */
export async function redlock(clients: readonly RedisClient[], options?: ConnectOptions): Promise<Client> {
  if (!Array.isArray(clients)) throw wrongType('the clients', 'an array', clients, 'connect');
  const checked = Array.from(clients, redisClient);
  return open(checked, { primaries: checked.map(url) }, options);
}

async function open(
  clients: readonly RedisClient[],
  servers: Servers,
  options: ConnectOptions | undefined,
): Promise<Client> {
  const given: AllOptions = { renew: false, ...object(options, 'the options', 'connect') };
  const foreign = CONNECTION_OPTIONS.find((name) => given[name] !== undefined);
  if (foreign !== undefined) {
    throw new InvalidArgumentError(`${foreign} is an option of the client that opens the connection; set it there`, {
      operation: 'connect',
    });
  }
  await load().catch((error: unknown) => {
    throw notLoaded(error);
  });
  return new Client(await Engine.open(clientOptions(servers, given), clients));
}

/**
 * Returns the error for a core that could not be loaded. Without a network it is `Unavailable`, because a later attempt
 * can succeed; for a file that a bundler left behind it is `Misconfigured`, because the file stays missing.
 */
function notLoaded(error: unknown): SteadlockError {
  const details = { operation: 'connect', cause: textOf(error) } as const;
  if (error instanceof CoreUnreachableError) {
    return new UnavailableError(`steadlock.wasm could not be loaded: ${details.cause}`, {
      ...details,
      retryable: true,
    });
  }
  const message = hasCustomSource()
    ? `the argument of \`useCore\` is not the core, steadlock.wasm: ${details.cause}`
    : `steadlock.wasm is not beside its script: ${details.cause}; \`import 'steadlock-web/inlined'\`, or name it by \`useCore\``;
  return new MisconfiguredError(message, details);
}

function redisClient(value: unknown): RedisClient {
  const stray =
    wrongClientAdvice(value) ?? (typeof value === 'string' || value instanceof URL ? URL_ADVICE : undefined);
  if (stray !== undefined) throw invalid(`the client must be the result of an adapter, not ${stray}`);
  const { eval: run, subscribe } = (value ?? {}) as Partial<RedisClient>;
  const isClient = typeof run === 'function' && (subscribe === undefined || typeof subscribe === 'function');
  if (!isClient)
    throw wrongType('the client', 'an object with a function `eval`, as an adapter makes one', value, 'connect');
  wrappedClient(value as RedisClient)?.check();
  return value as RedisClient;
}

const URL_ADVICE =
  'a URL; that is for `deno` of steadlock-web/deno, `workers` of steadlock-web/workers, or the package steadlock';

function url({ name }: RedisClient): string {
  return `host://${(typeof name === 'string' && name) || 'redis'}`;
}

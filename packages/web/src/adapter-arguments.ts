// Checks the arguments of adapters at once, so that the error comes from the call with the mistake.

import { wrongType } from './arguments.js';
import { textOf } from './error-text.js';
import { InvalidArgumentError, MisconfiguredError } from './errors.js';

/**
 * The key of the information about the client behind an adapter. `Symbol.for` makes it the same in all copies of this
 * module, of which bundlers can make several.
 */
export const WRAPPED_CLIENT: unique symbol = Symbol.for('steadlock-web.behind') as never;

/** The information about the client behind an adapter. */
export interface WrappedClient {
  /** Throws if the client cannot be used: it was closed, or is not connected. */
  check(): void;
  /** Returns the last error that the client emitted, if the program listens to its errors. */
  lastError?(): unknown;
}

/** Returns the information about the client behind an adapter. */
export function wrappedClient(client: object): WrappedClient | undefined {
  return (client as { readonly [WRAPPED_CLIENT]?: WrappedClient })[WRAPPED_CLIENT];
}

/** Returns the error for a missing client or a client of the wrong library. */
export function invalid(message: string): InvalidArgumentError {
  return new InvalidArgumentError(message, { operation: 'connect' });
}

/** Returns the error for a client with a configuration that does not work with locks. */
export function misconfigured(message: string): MisconfiguredError {
  return new MisconfiguredError(message, { operation: 'connect' });
}

/**
 * Whether an object has functions of all these names. Refuses an object whose properties throw, such as some proxies.
 */
export function hasMethods(value: unknown, ...names: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false;
  try {
    return names.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
  } catch (error) {
    throw invalid(`the client throws when it is inspected: ${textOf(error)}`);
  }
}

/** Returns the error for a value of the wrong type. */
export function wrongArgument(what: string, wanted: string, value: unknown): InvalidArgumentError {
  return wrongType(what, wanted, value, 'connect');
}

/** Checks the names and types of an adapter's options. A number must be at least 1 and below 2^31. */
export function adapterOptions<T extends object>(given: T, types: Readonly<Record<keyof T, string>>): T {
  if (typeof given !== 'object' || given === null) throw wrongArgument('the options', 'an object', given);
  for (const [name, value] of Object.entries(given)) {
    const type = Object.hasOwn(types, name) ? types[name as keyof T] : undefined;
    if (type === undefined)
      throw invalid(`there is no option ${name.slice(0, 40)}; there are ${Object.keys(types).join(', ')}`);
    if (value !== undefined && (typeof value !== type || (type === 'number' && !(value >= 1 && value < 2 ** 31)))) {
      throw wrongArgument(name, type === 'number' ? 'a number, 1 or more' : `a ${type}`, value);
    }
  }
  return given;
}

/** Returns advice for a client that belongs to another adapter or to none. */
export function wrongClientAdvice(value: unknown): string | undefined {
  if (hasMethods(value, 'then')) return 'a promise; await it first';
  const of = (library: string, adapter: string, path: string, what = 'it') =>
    `a client of ${library}; give ${what} to \`${adapter}\` of steadlock-web/${path}`;
  if (hasMethods(value, 'execAsPipeline') || (value as { isPipeline?: unknown } | undefined)?.isPipeline === true) {
    return 'a pipeline; give the client itself';
  }
  if (hasMethods(value, 'call', 'defineCommand')) return of('ioredis', 'ioredis', 'ioredis');
  if (hasMethods(value, 'internal_send_command'))
    return 'a client of redis 3 or older, which returns no promises; use a newer one';
  // Deno's clients have `evalsha` in lower case only, and their `sendCommand` has other arguments.
  if (hasMethods(value, 'sendCommand', 'evalsha'))
    return "a client of Deno's own; give its URL to `deno` of steadlock-web/deno";
  if (hasMethods(value, 'sendCommand')) return of('node-redis', 'nodeRedis', 'node-redis');
  if (hasMethods(value, 'evalsha', 'pipeline')) return of('@upstash/redis', 'upstash', 'upstash', 'its url and token');
  return undefined;
}

interface Emitter {
  listenerCount(event: string): number;
  on(event: string, listener: (error: unknown) => void): unknown;
}

/** The last error that each client emitted. */
const lastErrors = new WeakMap<object, { error: unknown }>();

/**
 * Stores the last error that a client emits about its connection, because without a connection its calls may wait and
 * not fail. Returns a function that returns this error. Adds no listener to a client without one: such a client ends
 * the program at an error, or writes the error to the console, and a listener would change that.
 */
export function recordErrors(client: object): () => unknown {
  const emitter = client as Emitter;
  if (!lastErrors.has(client) && hasMethods(client, 'listenerCount', 'on') && emitter.listenerCount('error') > 0) {
    const last = { error: undefined as unknown };
    lastErrors.set(client, last);
    emitter.on('error', (error) => {
      last.error = error;
    });
  }
  return () => lastErrors.get(client)?.error;
}

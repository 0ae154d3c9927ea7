// Looks at clients and options when adapters are given them, so that a mistake is told where it is made.

import { wrong } from './arguments.js';
import { InvalidArgumentError, MisconfiguredError } from './errors.js';
import { textOf } from './thrown.js';

/** The key of what the client behind an adapter says of itself. A symbol of all copies: bundlers may make several. */
export const BEHIND: unique symbol = Symbol.for('steadlock-web.behind') as never;

/** The client behind an adapter, as it shows itself beside a `RedisClient`. */
export interface Behind {
  /** Throws if it cannot be used as it is: it was closed, or is not connected. */
  check(): void;
  /** The last error that it told of, if somebody listens to its errors. */
  lastError?(): unknown;
}

/** The client behind an adapter. */
export function behind(client: object): Behind | undefined {
  return (client as { readonly [BEHIND]?: Behind })[BEHIND];
}

/** The error for a client of the wrong sort, or of nothing. */
export function invalid(message: string): InvalidArgumentError {
  return new InvalidArgumentError(message, { operation: 'connect' });
}

/** The error for a client that is set up in a way that locks cannot work with. */
export function misconfigured(message: string): MisconfiguredError {
  return new MisconfiguredError(message, { operation: 'connect' });
}

/** Whether an object has functions of all these names. One that throws when it is looked at, as some proxies do, is refused. */
export function has(value: unknown, ...names: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false;
  try {
    return names.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
  } catch (error) {
    throw invalid(`the client throws as soon as it is looked at: ${textOf(error)}`);
  }
}

/** The error for a value of the wrong type. */
export function mistaken(what: string, wanted: string, value: unknown): InvalidArgumentError {
  return wrong(what, wanted, value, 'connect');
}

/** An adapter's options, of these names and types only; `number` is one that is more than 0. */
export function adapterOptions<T extends object>(given: T, types: Readonly<Record<keyof T, string>>): T {
  if (typeof given !== 'object' || given === null) throw mistaken('the options', 'an object', given);
  for (const [name, value] of Object.entries(given)) {
    const type = Object.hasOwn(types, name) ? types[name as keyof T] : undefined;
    if (type === undefined)
      throw invalid(`there is no option ${name.slice(0, 40)}; there are ${Object.keys(types).join(', ')}`);
    if (value !== undefined && (typeof value !== type || (type === 'number' && !(value >= 1 && value < 2 ** 31)))) {
      throw mistaken(name, type === 'number' ? 'a number, 1 or more' : `a ${type}`, value);
    }
  }
  return given;
}

/** Where a client of some library is meant for another adapter, or for none: what to do. */
export function strayClient(value: unknown): string | undefined {
  if (has(value, 'then')) return 'a promise; await it first';
  const of = (library: string, adapter: string, path: string, what = 'it') =>
    `a client of ${library}; give ${what} to \`${adapter}\` of steadlock-web/${path}`;
  if (has(value, 'execAsPipeline') || (value as { isPipeline?: unknown } | undefined)?.isPipeline === true) {
    return 'a pipeline; give the client itself';
  }
  if (has(value, 'call', 'defineCommand')) return of('ioredis', 'ioredis', 'ioredis');
  if (has(value, 'internal_send_command'))
    return 'a client of redis 3 or older, which gives no promises; take a newer one';
  // Those of Deno have its name in one case only, and take a command otherwise.
  if (has(value, 'sendCommand', 'evalsha'))
    return "a client of Deno's own; give its URL to `deno` of steadlock-web/deno";
  if (has(value, 'sendCommand')) return of('node-redis', 'nodeRedis', 'node-redis');
  if (has(value, 'evalsha', 'pipeline')) return of('@upstash/redis', 'upstash', 'upstash', 'its url and token');
  return undefined;
}

interface Emitter {
  listenerCount(event: string): number;
  on(event: string, listener: (error: unknown) => void): unknown;
}

/** The last error of each client. */
const lastErrors = new WeakMap<object, { error: unknown }>();

/**
 * Notes what a client tells of its connection, as its calls may only wait meanwhile. A client whose errors nobody listens
 * to ends the program, or writes them to the console; that stays so.
 */
export function noteErrors(client: object): () => unknown {
  const emitter = client as Emitter;
  if (!lastErrors.has(client) && has(client, 'listenerCount', 'on') && emitter.listenerCount('error') > 0) {
    const last = { error: undefined as unknown };
    lastErrors.set(client, last);
    emitter.on('error', (error) => {
      last.error = error;
    });
  }
  return () => lastErrors.get(client)?.error;
}

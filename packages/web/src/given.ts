// What adapters are given is looked at when it is given, so that a mistake is told where it is made.

import { InvalidArgumentError, MisconfiguredError } from './errors.js';

/** What the client behind an adapter says of itself. A symbol of all copies: bundlers may make several. */
export const BEHIND: unique symbol = Symbol.for('steadlock-web.behind') as never;

/** What an adapter tells of the client behind it, beside a `RedisClient`. */
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

/** A value's sort, as messages say it. Its text is the program's own, and may hold anything. */
export function sortOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : typeof value;
}

/** Whether an object has functions of all these names. */
export function has(value: unknown, ...names: readonly string[]): boolean {
  if (typeof value !== 'object' || value === null) return false;
  return names.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
}

/** A number of milliseconds that a timer can wait, or what is meant where nothing is given. */
export function milliseconds(value: unknown, what: string, otherwise: number): number {
  if (value === undefined) return otherwise;
  if (typeof value === 'number' && value >= 1 && value < 2 ** 31) return value;
  throw invalid(
    `${what} must be a number of milliseconds, 1 or more, not ${typeof value === 'number' ? value : sortOf(value)}`,
  );
}

/** Where a client of some library is meant for another adapter, or for none: what to do. */
export function strayClient(value: unknown): string | undefined {
  if (has(value, 'then')) return 'a promise; await it first';
  if (has(value, 'call', 'defineCommand')) return 'a client of ioredis; give it to `ioredis` of steadlock-web/ioredis';
  if (has(value, 'sendCommand')) return 'a client of node-redis; give it to `nodeRedis` of steadlock-web/node-redis';
  if (has(value, 'evalsha', 'pipeline')) {
    return 'a client of @upstash/redis; give its url and token to `upstash` of steadlock-web/upstash';
  }
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

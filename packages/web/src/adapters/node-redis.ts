/**
 * The adapter for `redis`, the package of node-redis: `connect(nodeRedis(client, await client.duplicate().connect()))`.
 */

import {
  hasMethods,
  invalid,
  recordErrors,
  WRAPPED_CLIENT,
  type WrappedClient,
  wrongClientAdvice,
} from '../adapter-arguments.js';
import type { RedisClient } from '../redis-client.js';
import { refused, runScript } from './script.js';

/** The used part of a client of node-redis. */
export interface NodeRedis {
  readonly options?: { readonly socket?: object | undefined; readonly url?: string | undefined } | undefined;
  readonly isOpen?: boolean;
  sendCommand(command: string[]): Promise<unknown>;
}

/** The used part of the client that subscribes. */
export interface NodeRedisSubscriber {
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  unsubscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
}

/**
 * Returns a `RedisClient` of node-redis. The program itself must close the connections, after the client of Steadlock.
 *
 * @param client the client that runs the scripts; it must be connected
 * @param subscriber another connected client, for subscriptions only; without it, waiters poll
 * @throws InvalidArgumentError if an argument is no client of node-redis for one server, such as one for a cluster or
 * for sentinels, or if both are the same client
 */
export function nodeRedis(client: NodeRedis, subscriber?: NodeRedisSubscriber): RedisClient {
  refuseOthers(client, subscriber);
  const run = async (...command: string[]) => {
    try {
      return await client.sendCommand(command);
    } catch (error) {
      throw refused(error, isRefusal);
    }
  };
  const { host, port } = (client.options?.socket ?? {}) as { host?: string; port?: number };
  const wrapped: WrappedClient = {
    check() {
      for (const one of [client, subscriber] as const) {
        if ((one as Partial<NodeRedis> | undefined)?.isOpen === false) {
          throw invalid('the client of node-redis is not connected, or was closed; `await client.connect()` first');
        }
      }
    },
    lastError: recordErrors(client),
  };
  const made: RedisClient = {
    name: host === undefined ? undefined : `${host}:${port ?? 6379}`,
    eval: (script, keys, args, sha1) => runScript(run, { script, sha1 }, keys, args),
    ...(subscriber && {
      subscribe: async (channel: string, onMessage: (message: string) => void) => {
        const listener = (message: string) => onMessage(message);
        await subscriber.subscribe(channel, listener);
        return () => subscriber.unsubscribe(channel, listener);
      },
    }),
  };
  return Object.assign(made, { [WRAPPED_CLIENT]: wrapped });
}

/**
 * Refuses clients of other libraries, and clients for a cluster or for sentinels, whose `sendCommand` has other
 * arguments.
 */
function refuseOthers(client: unknown, subscriber: unknown): void {
  for (const [what, value, names] of [
    ['client', client, ['sendCommand']],
    ['subscriber', subscriber, ['subscribe', 'unsubscribe']],
  ] as const) {
    if (what === 'subscriber' && value === undefined) continue;
    const stray = strayOf(value, names);
    if (stray !== undefined) throw invalid(`the ${what} must be one of node-redis for one server, not ${stray}`);
  }
  if (subscriber === client) {
    throw invalid('a client that listens can do nothing else; give another as subscriber, as `client.duplicate()`');
  }
}

function strayOf(value: unknown, names: readonly string[]): string | undefined {
  if (hasMethods(value, 'getMasterNode')) return 'one of sentinels; use ioredis and `ioredis` of steadlock-web/ioredis';
  if (hasMethods(value, 'getRandomNode')) return 'one of a cluster; use ioredis and `ioredis` of steadlock-web/ioredis';
  if (['then', 'evalsha', 'execAsPipeline', 'internal_send_command'].some((name) => hasMethods(value, name))) {
    return wrongClientAdvice(value) ?? 'that';
  }
  if ((value as { options?: { legacyMode?: unknown } } | undefined)?.options?.legacyMode) {
    return 'one with legacyMode, which gives no promises; make it without';
  }
  if (hasMethods(value, 'sendCommand', 'get') && !hasMethods(value, 'connect'))
    return 'its legacy() form; give the client itself';
  if (hasMethods(value, 'sendCommand') && !hasMethods(value, ...names))
    return 'a pool, which cannot listen; give a client of its own';
  if (!hasMethods(value, ...names)) return wrongClientAdvice(value) ?? 'that';
  return undefined;
}

/**
 * Whether the error is a reply of the server. Checks the class, and also the form of the message, because a minifier
 * can rename classes. The messages of node-redis' own errors have another form: "Socket closed unexpectedly".
 */
function isRefusal(error: Error): boolean {
  for (let at = Object.getPrototypeOf(error); at !== null; at = Object.getPrototypeOf(at)) {
    if (at.constructor.name === 'ErrorReply') return true;
  }
  return /^[A-Z][A-Z0-9_]* /.test(error.message);
}

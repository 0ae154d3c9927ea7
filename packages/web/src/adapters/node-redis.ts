/** For `redis`, the node-redis package: `connect(nodeRedis(client, await client.duplicate().connect()))`. */

import type { RedisClient } from '../redis-client.js';
import { refused, runScript } from './script.js';

/** What is asked of a client of node-redis. */
export interface NodeRedis {
  readonly options?: { readonly socket?: object | undefined; readonly url?: string | undefined } | undefined;
  sendCommand(command: string[]): Promise<unknown>;
}

/** What is asked of the one that listens. */
export interface NodeRedisSubscriber {
  subscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
  unsubscribe(channel: string, listener: (message: string) => void): Promise<unknown>;
}

/**
 * A `RedisClient` of node-redis. The connections stay yours: close them after the client.
 *
 * @param client runs the scripts; connected
 * @param subscriber another one, connected, which listens and can do nothing else meanwhile; left out, waiters poll
 */
export function nodeRedis(client: NodeRedis, subscriber?: NodeRedisSubscriber): RedisClient {
  const run = (...command: string[]) =>
    client.sendCommand(command).catch((error: unknown) => {
      throw refused(error, isRefusal);
    });
  const { host, port } = (client.options?.socket ?? {}) as { host?: string; port?: number };
  return {
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
}

/**
 * Whether it is the server's: by its class, or by its form, as a minifier gives classes other names. Errors of node-redis
 * itself begin otherwise: "Socket closed unexpectedly".
 */
function isRefusal(error: Error): boolean {
  for (let at = Object.getPrototypeOf(error); at !== null; at = Object.getPrototypeOf(at)) {
    if (at.constructor.name === 'ErrorReply') return true;
  }
  return /^[A-Z][A-Z0-9_]* /.test(error.message);
}

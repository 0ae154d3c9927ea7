/** For `ioredis`, on one server or a cluster: `connect(ioredis(redis, redis.duplicate()))`. */

import type { RedisClient, Unsubscribe } from '../redis-client.js';
import { Channels } from './channels.js';
import { runScript } from './script.js';

/** What is asked of a `Redis` or `Cluster` of ioredis. */
export interface IoRedis {
  readonly options?: object;
  readonly isCluster?: boolean;
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
}

/** What is asked of the one that listens. */
export interface IoRedisSubscriber {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
}

/** Where a `Redis` is connected to; a `Cluster` says nothing of the kind. */
interface Place {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
  /** The service, of those that sentinels watch. */
  readonly name?: string;
}

/**
 * A `RedisClient` of ioredis. The connections stay yours: close them after the client.
 *
 * @param redis runs the scripts
 * @param subscriber another one, which listens and can do nothing else meanwhile; left out, waiters poll
 */
export function ioredis(redis: IoRedis, subscriber?: IoRedisSubscriber): RedisClient {
  const run = (...command: string[]) => redis.call(command[0] as string, ...command.slice(1));
  const { host, port, path, name } = (redis.options ?? {}) as Place;
  const channels = subscriber && channelsOf(subscriber);
  return {
    name: path ?? name ?? (host === undefined ? undefined : `${host}:${port}`),
    cluster: redis.isCluster === true,
    eval: (script, keys, args, sha1) => runScript(run, { script, sha1 }, keys, args),
    ...(channels && {
      subscribe: (channel: string, onMessage: (message: string) => void): Promise<Unsubscribe> =>
        channels.subscribe(channel, onMessage),
    }),
  };
}

/** One set of listeners for each subscriber, however often it is given. */
const known = new WeakMap<IoRedisSubscriber, Channels>();

function channelsOf(subscriber: IoRedisSubscriber): Channels {
  let channels = known.get(subscriber);
  if (channels === undefined) {
    const made = new Channels(subscriber);
    subscriber.on('message', (channel, message) => made.heard(channel, message));
    known.set(subscriber, made);
    channels = made;
  }
  return channels;
}

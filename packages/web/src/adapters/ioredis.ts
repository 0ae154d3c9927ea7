/** The adapter for `ioredis`, with one server or a cluster: `connect(ioredis(redis, redis.duplicate()))`. */

import {
  hasMethods,
  invalid,
  misconfigured,
  recordErrors,
  WRAPPED_CLIENT,
  type WrappedClient,
  wrongClientAdvice,
} from '../adapter-arguments.js';
import type { RedisClient, Unsubscribe } from '../redis-client.js';
import { Channels } from './channels.js';
import { runScript } from './script.js';

/** The used part of a `Redis` or `Cluster` of ioredis. */
export interface IoRedis {
  readonly options?: object;
  readonly isCluster?: boolean;
  readonly status?: string;
  call(command: string, ...args: (string | number)[]): Promise<unknown>;
}

/** The used part of the client that subscribes. */
export interface IoRedisSubscriber {
  subscribe(channel: string): Promise<unknown>;
  unsubscribe(channel: string): Promise<unknown>;
  on(event: 'message', listener: (channel: string, message: string) => void): unknown;
}

/** The server of a `Redis`. A `Cluster` has no such options. */
interface Place {
  readonly host?: string;
  readonly port?: number;
  readonly path?: string;
  /** The name of the service that sentinels watch. */
  readonly name?: string;
}

/** Options that change keys or replies. A `Cluster` can have them in the options for its nodes too. */
interface Changes {
  readonly keyPrefix?: { readonly length: number };
  readonly stringNumbers?: boolean;
  readonly redisOptions?: Changes;
}

/**
 * Returns a `RedisClient` of ioredis. The program itself must close the connections, after the client of Steadlock.
 *
 * @param redis the client that runs the scripts
 * @param subscriber another client, for subscriptions only; without it, waiters poll
 * @throws InvalidArgumentError if an argument is no client of ioredis, or if both are the same client
 * @throws MisconfiguredError if the client has a `keyPrefix` or `stringNumbers`
 */
export function ioredis(redis: IoRedis, subscriber?: IoRedisSubscriber): RedisClient {
  refuseOthers(redis, subscriber);
  refuseChanges(redis);
  const run = async (...command: string[]) => {
    try {
      return await redis.call(command[0] as string, ...command.slice(1));
    } catch (error) {
      throw error instanceof Error && error.message.startsWith(LISTENS) ? invalid(IS_SUBSCRIBER) : error;
    }
  };
  const { host, port, path, name } = (redis.options ?? {}) as Place;
  const channels = subscriber && channelsOf(subscriber);
  const wrapped: WrappedClient = {
    check() {
      for (const one of [redis, subscriber] as const) {
        if ((one as Partial<IoRedis> | undefined)?.status === 'end') {
          throw invalid('the ioredis client was closed; give one that is open');
        }
      }
    },
    lastError: recordErrors(redis),
  };
  const client: RedisClient = {
    name: path ?? name ?? (host === undefined ? undefined : `${host}:${port}`),
    cluster: redis.isCluster === true,
    eval: (script, keys, args, sha1) => runScript(run, { script, sha1 }, keys, args),
    ...(channels && {
      subscribe: (channel: string, onMessage: (message: string) => void): Promise<Unsubscribe> =>
        channels.subscribe(channel, onMessage),
    }),
  };
  return Object.assign(client, { [WRAPPED_CLIENT]: wrapped });
}

/** Refuses clients of other libraries. Some have methods of the same names that work differently. */
function refuseOthers(redis: unknown, subscriber: unknown): void {
  if (!hasMethods(redis, 'call') || (redis as { isPipeline?: boolean }).isPipeline) {
    throw invalid(`the client must be a Redis or Cluster of ioredis, not ${wrongClientAdvice(redis) ?? 'that'}`);
  }
  if (subscriber === undefined) return;
  const isOther = hasMethods(subscriber, 'pSubscribe') || hasMethods(subscriber, 'internal_send_command');
  if (isOther || !hasMethods(subscriber, 'subscribe', 'unsubscribe', 'on')) {
    throw invalid(
      `the subscriber must be a Redis or Cluster of ioredis, not ${wrongClientAdvice(subscriber) ?? 'that'}`,
    );
  }
  if (subscriber === redis) {
    throw invalid(IS_SUBSCRIBER);
  }
}

/** The start of ioredis' error for a command on a connection that subscribes. */
const LISTENS = 'Connection in subscriber mode';
const IS_SUBSCRIBER = 'a client that listens can do nothing else; give another as subscriber, as `redis.duplicate()`';

/**
 * Refuses two options: with `keyPrefix` the keys of locks would differ from those of other services, and with
 * `stringNumbers` numbers in replies would be text.
 */
function refuseChanges(redis: IoRedis): void {
  const { keyPrefix, stringNumbers, redisOptions = {} } = (redis.options ?? {}) as Changes;
  const copy = redis.isCluster ? 'a Cluster without it' : "`redis.duplicate({ keyPrefix: '' })`";
  if ((keyPrefix ?? redisOptions.keyPrefix)?.length) {
    throw misconfigured(
      `the ioredis client has a keyPrefix, so its locks would exclude none of your other services; give ${copy}, and ` +
        'give `connect` the option keyPrefix where all services have that prefix',
    );
  }
  if (stringNumbers || redisOptions.stringNumbers) {
    throw misconfigured('the ioredis client has stringNumbers, and locks need numbers; give one without it');
  }
}

/** The channels of each subscriber. A subscriber that is passed several times has one set of listeners. */
const known = new WeakMap<IoRedisSubscriber, Channels>();

function channelsOf(subscriber: IoRedisSubscriber): Channels {
  let channels = known.get(subscriber);
  if (channels === undefined) {
    const made = new Channels(subscriber);
    subscriber.on('message', (channel, message) => made.dispatch(channel, message));
    known.set(subscriber, made);
    channels = made;
  }
  return channels;
}

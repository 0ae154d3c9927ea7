/** An answer of a script: `null`, a number, a string, or a list of these. Bytes are taken for UTF-8. */
export type Reply = null | undefined | number | bigint | string | Uint8Array | readonly Reply[];

/**
 * What Steadlock asks of the program's own Redis client. The adapters make one of each usual client; for another, write
 * these few lines.
 */
export interface RedisClient {
  /** The server as messages name it, without user and password: `127.0.0.1:6379`. Default `redis`. */
  readonly name?: string | undefined;
  /**
   * Whether the server is a node of a cluster: then releases are told on its sharded channels, on which the other
   * languages listen, and those of `lock` and `fairLock` on ordinary ones too. Default false.
   */
  readonly cluster?: boolean | undefined;
  /**
   * Runs a script, as `EVAL script keys.length ...keys ...args`, or `EVALSHA` with `sha1` and `EVAL` on `NOSCRIPT`.
   *
   * What the server refuses is to reject with an error whose `name` is `ReplyError` and whose `message` is the server's
   * own: then the script did nothing. Every other rejection counts as "nobody knows whether it ran". There is no need
   * to give up after a time: Steadlock does, by `commandTimeoutMs`, and takes no notice of what comes later.
   *
   * @returns the script's answer
   */
  eval(script: string, keys: readonly string[], args: readonly string[], sha1: string): PromiseLike<Reply> | Reply;
  /**
   * Listens to a channel, and calls `onMessage` with each message. Left out, waiters poll from time to time, and
   * notice a release up to `retryIntervalMs` later.
   *
   * @returns once the server has confirmed it: a function that ends it, or nothing
   */
  subscribe?(channel: string, onMessage: (message: string) => void): PromiseLike<Unsubscribe> | Unsubscribe;
}

/** Ends a subscription. */
export type Unsubscribe = (() => unknown) | undefined;

/** What a server refused, for a `RedisClient` of one's own: `throw new ReplyError(text)`. */
export class ReplyError extends Error {
  /** @param message the server's own text, such as `WRONGTYPE Operation against a key …` */
  constructor(message: string) {
    super(message);
    this.name = 'ReplyError';
  }
}

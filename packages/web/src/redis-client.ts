/** A reply of a script: `null`, a number, a string, or a list of these. Bytes are decoded as UTF-8. */
export type Reply = null | undefined | number | bigint | string | Uint8Array | readonly Reply[];

/**
 * The interface to the program's own Redis client. Adapters make one from each usual client; for another client,
 * implement it yourself.
 */
export interface RedisClient {
  /** The name of the server in messages, without user and password: `127.0.0.1:6379`. Default `redis`. */
  readonly name?: string | undefined;
  /**
   * Whether the server is a node of a cluster. The scripts then publish notifications of releases on sharded channels,
   * to which clients in the other languages subscribe; notifications of `lock` and `fairLock` go to ordinary channels
   * too. Default false.
   */
  readonly cluster?: boolean | undefined;
  /**
   * Runs a script, as `EVAL script keys.length ...keys ...args`, or `EVALSHA` with `sha1` and `EVAL` on `NOSCRIPT`.
   *
   * If the server refuses the script, the promise must reject with an error whose `name` is `ReplyError` and whose
   * `message` is the server's own. Steadlock then assumes that the script had no effect. After any other rejection, it
   * assumes that the script may have run. A time limit is not necessary: Steadlock stops waiting after
   * `commandTimeoutMs`, and ignores a later result.
   *
   * @returns the script's reply
   */
  eval(script: string, keys: readonly string[], args: readonly string[], sha1: string): PromiseLike<Reply> | Reply;
  /**
   * Subscribes to a channel, and calls `onMessage` with each message. Without this method waiters poll, and notice a
   * release up to `retryIntervalMs` later.
   *
   * @returns when the server has confirmed: a function that ends the subscription, or nothing
   */
  subscribe?(channel: string, onMessage: (message: string) => void): PromiseLike<Unsubscribe> | Unsubscribe;
}

/** Ends a subscription. */
export type Unsubscribe = (() => unknown) | undefined;

/** The refusal of a server, for your own `RedisClient`: `throw new ReplyError(text)`. */
export class ReplyError extends Error {
  /** @param message the server's own text, such as `WRONGTYPE Operation against a key …` */
  constructor(message: string) {
    super(message);
    this.name = 'ReplyError';
  }
}

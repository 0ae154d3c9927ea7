// The servers of one client. Sends items with the program's Redis clients, and reports replies and messages to the
// core.

import { wrappedClient } from './adapter-arguments.js';
import { isServerError, textOf } from './error-text.js';
import type { NativeClient as Core } from './glue.js';
import type { RedisClient, Unsubscribe } from './redis-client.js';
import { pause } from './runtime.js';

/** A script. The core refers to scripts by their position. */
export interface Script {
  readonly text: string;
  readonly sha1: string;
}

/** An item to send: see `bindings/wasm/src/transmit.rs`. */
export type Transmit =
  | {
      readonly what: 'call';
      readonly node: number;
      readonly id: number;
      readonly script: number;
      readonly keys: readonly string[];
      readonly args: readonly string[];
    }
  | { readonly what: 'subscribe' | 'unsubscribe'; readonly node: number; readonly channel: string };

/** The reason why a server could not be called. */
interface Failure {
  readonly text: string;
  /** Whether another attempt would fail in the same way. */
  readonly isPermanent: boolean;
}

interface ServerOptions {
  /** Reports an event to the core. */
  readonly report: (what: (core: Core) => void) => void;
  readonly connectTimeoutMs: number;
  /** Whether no server call may be made before the first use. */
  readonly isLazy: boolean;
  /** The prefix of each lock's name. */
  readonly keyPrefix: string;
}

/**
 * The script of the probe. Its reply shows whether the server runs scripts, and whether keys, numbers and texts arrive
 * unchanged.
 */
const PROBE = { text: "return {KEYS[1] or '',1,'1'}", sha1: 'dc80a49f00fd502d7312166af54683a3fb154016' };
/**
 * The codes of errors that only refuse the key: the user may use other keys, or another node has the key. The server
 * can run scripts all the same.
 */
const KEY_ERRORS = new Set(['NOPERM', 'MOVED', 'ASK', 'CLUSTERDOWN', 'TRYAGAIN']);
/** The number of characters of a key that a message shows. */
const MAX_SHOWN_KEY = 80;

/** The codes of server errors that another attempt would get too. */
const PERMANENT_ERRORS = new Set(['ERR', 'NOAUTH', 'NOPERM', 'WRONGPASS']);

/** The pause before another attempt to reach a server, in milliseconds. It doubles up to the longest pause. */
const PAUSE_MS = 50;
const MAX_PAUSE_MS = 1_000;

export class Servers {
  readonly #clients: readonly RedisClient[];
  readonly #scripts: readonly Script[];
  readonly #options: ServerOptions;
  /** The key of the probe. It is never written, and every user with access to the records of locks may use it. */
  readonly #probedKey: string;
  /** The probes of a lazy client's servers. The first call to a server starts its probe. */
  readonly #probed = new Map<number, Promise<string | undefined>>();
  /** The subscriptions, by server and channel. */
  readonly #subscriptions = new Map<string, Subscription>();
  #isOver = false;

  /** The numbers of the servers that also publish on a cluster's sharded channels. */
  readonly sharded: Uint16Array;

  constructor(clients: readonly RedisClient[], scripts: readonly Script[], options: ServerOptions) {
    this.#clients = clients;
    this.#scripts = scripts;
    this.#options = options;
    this.#probedKey = `steadlock:{${options.keyPrefix}}:probe`;
    this.sharded = Uint16Array.from(clients.flatMap(({ cluster }, node) => (cluster ? [node] : [])));
  }

  /** Starts to probe the servers. The servers of a lazy client count as open at once. */
  connect(): void {
    this.#clients.forEach((client, node) => {
      if (this.#options.isLazy) this.#open(client, node);
      else void this.#probe(client, node);
    });
  }

  /** Ends all subscriptions, and sends nothing any more. */
  end(): void {
    this.#isOver = true;
    for (const key of [...this.#subscriptions.keys()]) this.#unsubscribe(key);
  }

  send(item: Transmit): void {
    const client = this.#clients[item.node] as RedisClient;
    if (item.what === 'call') return void this.#call(client, item);
    const key = `${item.node} ${item.channel}`;
    if (item.what === 'unsubscribe') this.#unsubscribe(key);
    else void this.#subscribe(client, item.node, item.channel, key);
  }

  async #call(client: RedisClient, call: Transmit & { what: 'call' }): Promise<void> {
    const { node, id, keys, args } = call;
    const { text, sha1 } = this.#scripts[call.script] as Script;
    const defect = this.#options.isLazy ? await this.#probeAtFirstUse(client, node) : undefined;
    if (defect !== undefined) {
      this.#report((core) => core.failed(node, id, true, `${NOT_SENT} ${defect}`));
      return;
    }
    try {
      const reply = await client.eval(text, keys, args, sha1);
      this.#report((core) => core.replied(node, id, reply));
    } catch (error) {
      const [isRefusal, text] = [isServerError(error), textOf(error)];
      this.#report((core) => core.failed(node, id, isRefusal, text));
    }
  }

  async #subscribe(client: RedisClient, node: number, channel: string, key: string): Promise<void> {
    if (client.subscribe === undefined) return;
    const onMessage = (message: string) => this.#report((core) => core.messageReceived(node, channel, `${message}`));
    const subscription = new Subscription();
    this.#subscriptions.set(key, subscription);
    while (!subscription.isOver) {
      try {
        subscription.confirm(await client.subscribe(channel, onMessage));
        if (!subscription.isOver) this.#report((core) => core.subscribed(node, channel));
        return;
      } catch {
        // Waiters poll until the subscription succeeds.
        await pause(MAX_PAUSE_MS);
      }
    }
  }

  #unsubscribe(key: string): void {
    this.#subscriptions.get(key)?.end();
    this.#subscriptions.delete(key);
  }

  /**
   * Probes a server until the probe succeeds. Reports once that it gives the server up: at the first permanent failure
   * or, if the client has no other server, at the end of the connect timeout. If the client has others, it probes on.
   */
  async #probe(client: RedisClient, node: number): Promise<void> {
    const deadline = performance.now() + this.#options.connectTimeoutMs;
    let failure: Failure = { text: `no answer within ${this.#options.connectTimeoutMs} ms`, isPermanent: false };
    let hasFailed = false;
    for (let pauseMs = PAUSE_MS; !this.#isOver; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      const isOnly = this.#clients.length === 1;
      const leftMs = deadline - performance.now();
      const answer = await this.#probeOnce(client, leftMs > 0 ? leftMs : isOnly ? PAUSE_MS : MAX_PAUSE_MS);
      if (answer === 'served') return this.#open(client, node);
      if (answer === 'late') failure = timeoutFailure(client, failure);
      else failure = answer;
      const { text, isPermanent } = failure;
      if (!hasFailed && (isPermanent || (isOnly && performance.now() >= deadline))) {
        hasFailed = true;
        this.#report((core) => core.giveUp(node, isPermanent, text));
      } else {
        this.#report((core) => core.closed(node, text));
      }
      // With several servers a majority is enough to connect, and this server may still join it later.
      if (hasFailed && isOnly) return;
      // The last attempt must be at the deadline, not one pause after it.
      await pause(isOnly ? Math.min(pauseMs, Math.max(deadline - performance.now(), 0)) : pauseMs);
    }
  }

  /** Probes once, and waits up to `limitMs` for the reply. */
  async #probeOnce(client: RedisClient, limitMs: number): Promise<'served' | 'late' | Failure> {
    const over = new AbortController();
    const late = pause(limitMs, over.signal).then(() => 'late' as const);
    const asked = async () => {
      const defect = await this.#defect(client);
      return defect === undefined ? ('served' as const) : { text: defect, isPermanent: true };
    };
    try {
      return await Promise.race([asked(), late]);
    } catch (error) {
      const text = textOf(error);
      return {
        text,
        isPermanent: isClientError(error) || (isServerError(error) && PERMANENT_ERRORS.has(codeOf(text))),
      };
    } finally {
      over.abort();
    }
  }

  /** Returns why locks cannot work with a client whose server answers; `undefined` if they can. */
  async #defect(client: RedisClient, key = this.#probedKey): Promise<string | undefined> {
    try {
      return defectOf(await client.eval(PROBE.text, key === '' ? [] : [key], [], PROBE.sha1), key);
    } catch (error) {
      if (key === '' || !isServerError(error) || !KEY_ERRORS.has(codeOf(textOf(error)))) throw error;
      return this.#defect(client, '');
    }
  }

  /**
   * Returns why locks cannot work with a lazy client; checked before its first call. Returns `undefined` after a failed
   * probe: the call itself shows whether the server answers.
   */
  #probeAtFirstUse(client: RedisClient, node: number): Promise<string | undefined> {
    const known = this.#probed.get(node);
    if (known !== undefined) return known;
    const probed = this.#defect(client).catch(() => {
      this.#probed.delete(node);
      return undefined;
    });
    this.#probed.set(node, probed);
    return probed;
  }

  #open(client: RedisClient, node: number): void {
    this.#report((core) => {
      core.opened(node);
      if (client.subscribe !== undefined) core.subscriptionsOpened(node);
    });
  }

  #report(what: (core: Core) => void): void {
    if (!this.#isOver) this.#options.report(what);
  }
}

/** A subscription, until it is ended. */
class Subscription {
  isOver = false;
  #unsubscribe: Unsubscribe;

  /** Called when the server has confirmed the subscription. */
  confirm(unsubscribe: Unsubscribe): void {
    this.#unsubscribe = unsubscribe;
    if (this.isOver) void this.#callUnsubscribe();
  }

  end(): void {
    this.isOver = true;
    void this.#callUnsubscribe();
  }

  async #callUnsubscribe(): Promise<void> {
    try {
      await this.#unsubscribe?.();
    } catch {
      // If unsubscribing fails, messages still arrive, and the core ignores them.
    }
  }
}

const NO_ANSWER = 'the Redis client returned no reply of a script';
/** The first word of the core's own refusals. The core passes the rest of the text to the caller. */
const NOT_SENT = 'STEADLOCK_ARGUMENT';

/** Returns why locks cannot work, by the reply to the probe; `undefined` if they can. */
function defectOf(answer: unknown, key: string): string | undefined {
  const [seen, number, text] = Array.isArray(answer) ? (answer as unknown[]) : [];
  const name = seen instanceof Uint8Array ? new TextDecoder().decode(seen) : seen;
  if (typeof name !== 'string' || Number(number) !== 1) return NO_ANSWER;
  if (name !== key) {
    const [from, to] = [key, name].map((text) => JSON.stringify(text.slice(0, MAX_SHOWN_KEY)));
    return `the Redis client, or a proxy, changed the key ${from} to ${to}, so locks would exclude no other service; switch its key prefix off, and use the option keyPrefix`;
  }
  if (typeof number !== 'number' && typeof number !== 'bigint') {
    return 'the Redis client returns numbers as text; switch that off';
  }
  if (typeof text === 'string' || text instanceof Uint8Array) return undefined;
  return 'the Redis client converts texts to numbers and objects; switch that off, for example by `automaticDeserialization: false`';
}

/**
 * Whether an adapter reports that its client has the wrong type or cannot be used. Compares the names of the classes,
 * because bundlers can make several copies of a class.
 */
function isClientError(error: unknown): boolean {
  return error instanceof Error && /^(InvalidArgument|Misconfigured)Error$/.test(error.name);
}

/** Returns the first word of a server's error. */
function codeOf(text: string): string {
  return text.split(' ', 1)[0] as string;
}

/** Returns the failure of a probe without a reply. Adds the last error that the client emitted, which says more. */
function timeoutFailure(client: RedisClient, failure: Failure): Failure {
  const error = wrappedClient(client)?.lastError?.();
  return error === undefined || failure.text.includes(': ')
    ? failure
    : { ...failure, text: `${failure.text}: ${textOf(error)}` };
}

// A `RedisClient` over connections that a host opens: one for scripts and one for subscriptions, each opened at its
// first use.

import { adapterOptions, invalid, WRAPPED_CLIENT, type WrappedClient, wrongArgument } from '../adapter-arguments.js';
import type { RedisClient, Reply, Unsubscribe } from '../redis-client.js';
import { pause } from '../runtime.js';
import { Channels } from './channels.js';
import { Connection, type Socket } from './resp.js';
import { runScript } from './script.js';

/** The address of a server. */
export interface Address {
  readonly hostname: string;
  readonly port: number;
  readonly tls: boolean;
}

/** A `RedisClient` with its own connections. */
export interface TcpClient extends RedisClient {
  /** Closes the connections. Pending calls reject. */
  close(): void;
}

/** The options of the connections. */
export interface TcpOptions {
  /**
   * The time after which a connection without a reply is closed, so that the next call opens another, in milliseconds.
   * Default 3,000, as a client's `commandTimeoutMs`. With auto-renewed leases, use at most a third of the shortest
   * lease, so that a failed renewal is repeated in time.
   */
  readonly timeoutMs?: number | undefined;
}

/**
 * @internal Returns a client of `redis://[user:password@]host[:port][/db]`, or `rediss://`; `valkey` is accepted in
 * place of `redis`.
 */
export function tcp(
  url: string | URL,
  open: (address: Address) => Promise<Socket> | Socket,
  options: TcpOptions = {},
): TcpClient {
  const { timeoutMs = 3_000 } = adapterOptions(options, { timeoutMs: 'number' });
  const { address, greeting } = parse(url);
  const dial = async (onMessage?: (channel: string, message: string) => void) => {
    const connection = new Connection(await openWithin(open, address, timeoutMs), onMessage);
    try {
      await Promise.all(greeting.map((command) => connection.run(timeoutMs, ...command)));
    } catch (error) {
      connection.close(error);
      throw error;
    }
    return connection;
  };
  const scripts = new ReopenedConnection(dial);
  const subscriptions = new TcpSubscriptions(dial, timeoutMs);
  const run = async (...command: string[]) => (await scripts.connection()).run(timeoutMs, ...command);
  const name = address.hostname.includes(':') ? `[${address.hostname}]` : address.hostname;
  const wrapped: WrappedClient = {
    check() {
      if (scripts.isClosed) throw invalid('the client was closed; make another');
    },
  };
  const client: TcpClient = {
    name: `${name}:${address.port}`,
    eval: (script, keys, args, sha1): Promise<Reply> => runScript(run, { script, sha1 }, keys, args),
    subscribe: (channel, onMessage): Promise<Unsubscribe> => subscriptions.subscribe(channel, onMessage),
    close() {
      scripts.close();
      subscriptions.close();
    },
  };
  return Object.assign(client, { [WRAPPED_CLIENT]: wrapped });
}

type Dial = (onMessage?: (channel: string, message: string) => void) => Promise<Connection>;

/** Opens a socket within the time limit. Closes a socket that comes too late. */
async function openWithin(
  open: (address: Address) => Promise<Socket> | Socket,
  address: Address,
  timeoutMs: number,
): Promise<Socket> {
  const over = new AbortController();
  const late = pause(timeoutMs, over.signal).then(() => undefined);
  const opening = Promise.resolve(open(address));
  try {
    const socket = await Promise.race([opening, late]);
    if (socket !== undefined) return socket;
    opening.then((socket) => socket.close()).catch(() => {});
    throw new Error(`no connection within ${timeoutMs} ms`);
  } finally {
    over.abort();
  }
}

/** A connection that is opened again at the next use after it has ended. */
class ReopenedConnection {
  readonly #dial: Dial;
  #connection: Promise<Connection> | undefined;
  #isClosed = false;

  constructor(dial: Dial) {
    this.#dial = dial;
  }

  connection(): Promise<Connection> {
    if (this.#isClosed) return Promise.reject(new Error('the client was closed'));
    if (this.#connection !== undefined) return this.#connection;
    const connection = this.#dial();
    this.#connection = connection;
    const forget = () => {
      if (this.#connection === connection) this.#connection = undefined;
    };
    connection.then(({ ended }) => ended.then(forget), forget);
    return connection;
  }

  get isClosed(): boolean {
    return this.#isClosed;
  }

  /** The connection, if there is one. */
  get current(): Promise<Connection> | undefined {
    return this.#connection;
  }

  close(): void {
    this.#isClosed = true;
    this.#connection?.then((connection) => connection.close()).catch(() => {});
  }
}

/** The connection for subscriptions. After it has ended, it is opened again if there are subscriptions. */
class TcpSubscriptions {
  readonly #connections: ReopenedConnection;
  readonly #channels: Channels;
  readonly #timeoutMs: number;
  readonly #wanted = new Set<string>();
  readonly #watched = new WeakSet<Connection>();
  #isResubscribing = false;
  #isClosed = false;

  constructor(dial: Dial, timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
    this.#connections = new ReopenedConnection(() =>
      dial((channel, message) => this.#channels.dispatch(channel, message)),
    );
    this.#channels = new Channels({
      subscribe: (channel) => this.#subscribe(channel),
      unsubscribe: (channel) => this.#unsubscribe(channel),
    });
  }

  subscribe(channel: string, onMessage: (message: string) => void): Promise<Unsubscribe> {
    return this.#channels.subscribe(channel, onMessage);
  }

  close(): void {
    this.#isClosed = true;
    this.#connections.close();
  }

  async #subscribe(channel: string): Promise<void> {
    await this.#subscribeOnce(channel);
    this.#wanted.add(channel);
  }

  async #subscribeOnce(channel: string): Promise<Connection> {
    const connection = await this.#connections.connection();
    if (!this.#watched.has(connection)) {
      this.#watched.add(connection);
      void connection.ended.then(() => this.#resubscribe());
    }
    await connection.run(this.#timeoutMs, 'SUBSCRIBE', channel);
    return connection;
  }

  async #unsubscribe(channel: string): Promise<void> {
    this.#wanted.delete(channel);
    // Without a connection there is no subscription to end.
    await (await this.#connections.current)?.run(this.#timeoutMs, 'UNSUBSCRIBE', channel);
  }

  /** Subscribes again to all channels. Meanwhile waiters poll. */
  async #resubscribe(): Promise<void> {
    if (this.#isResubscribing) return;
    this.#isResubscribing = true;
    while (this.#wanted.size > 0 && !this.#isClosed && !(await this.#resubscribeAll())) await pause(PAUSE_MS);
    this.#isResubscribing = false;
  }

  /**
   * Subscribes to all wanted channels. Returns false after a failure, or if the connection changed meanwhile: earlier
   * subscriptions are then lost.
   */
  async #resubscribeAll(): Promise<boolean> {
    try {
      const connections = new Set<Connection>();
      for (const channel of [...this.#wanted]) {
        const connection = await this.#subscribeOnce(channel);
        connections.add(connection);
        // The channel was unsubscribed meanwhile.
        if (!this.#wanted.has(channel)) await connection.run(this.#timeoutMs, 'UNSUBSCRIBE', channel);
      }
      return connections.size <= 1;
    } catch {
      return false;
    }
  }
}

const PAUSE_MS = 500;

/** No message repeats a URL, because it can contain a password. */
const URL_FORM =
  'the URL is redis://[user:password@]host[:port][/db], or rediss://, where valkey may stand for redis, without quotes ' +
  'around it and with special characters escaped, as / by %2F';

/** Returns a URL with its user, password and path, decoded; `undefined` if the text is no URL. */
function read(text: string): readonly [url: URL, user: string, password: string, path: string] | undefined {
  try {
    const url = new URL(text);
    const { username, password, pathname } = url;
    return [url, decodeURIComponent(username), decodeURIComponent(password), decodeURIComponent(pathname.slice(1))];
  } catch {
    return undefined;
  }
}

function parse(url: string | URL): { address: Address; greeting: string[][] } {
  if (typeof url !== 'string' && !(url instanceof URL)) throw wrongArgument('the URL', 'a string', url);
  const given = `${url}`;
  // The rest of the URL is parsed with the scheme `http`, because every host parses that scheme in the same way. As in
  // the other packages, whitespace around the URL is dropped. Whitespace inside is refused, because `URL` would drop
  // some of it.
  const [, scheme, rest] = /^(rediss?|valkeys?):\/\/([^#\s\p{Cc}\p{Cf}]*)$/iu.exec(given.trim()) ?? [];
  const parts = rest === undefined ? undefined : read(`http://${rest}`);
  if (parts === undefined) throw invalid(URL_FORM);
  const [parsed, user, password, path] = parts;
  // Other services can use the same URL. An unknown parameter is refused, because a service that understands it
  // differently would lock in another database.
  const databases = [path, ...parsed.searchParams.values()].filter((text) => text !== '');
  const [database] = databases;
  const isKnown = [...parsed.searchParams.keys()].every((key) => key === 'db') && databases.length <= 1;
  if (!isKnown || !/^\d*$/.test(database ?? '')) throw invalid(URL_FORM);
  const greeting: string[][] = [];
  if (password) greeting.push(user ? ['AUTH', user, password] : ['AUTH', password]);
  if (database) greeting.push(['SELECT', database]);
  // `URL` leaves out port 80, the default port of `http`.
  const port = parsed.port === '' ? (/^[^/?]*:80([/?]|$)/.test(rest as string) ? 80 : 6379) : Number(parsed.port);
  const tls = /^(rediss|valkeys)$/i.test(scheme as string);
  return { address: { hostname: parsed.hostname.replace(/^\[|\]$/g, ''), port, tls }, greeting };
}

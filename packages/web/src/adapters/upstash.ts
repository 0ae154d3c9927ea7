/**
 * The adapter for Upstash and for other servers with its REST API, such as `steadlock serve --http`. Needs only
 * `fetch`.
 */

import { adapterOptions, invalid, wrongArgument, wrongClientAdvice } from '../adapter-arguments.js';
import type { RedisClient, Unsubscribe } from '../redis-client.js';
import { ReplyError } from '../redis-client.js';
import { pause } from '../runtime.js';
import { runScript } from './script.js';

/** The options of the REST API. */
export interface UpstashOptions {
  /** The URL: the value of `UPSTASH_REDIS_REST_URL`. */
  readonly url: string | URL;
  /** The token: the value of `UPSTASH_REDIS_REST_TOKEN`. Leave it out if the server needs none. */
  readonly token?: string | undefined;
  /**
   * Whether to receive notifications of releases by server-sent events. Needs one open request for each lock that has
   * waiters, and two for a fair lock. Default false.
   */
  readonly subscribe?: boolean | undefined;
  /**
   * The maximum number of open requests for `subscribe`; further waiters poll. A browser opens at most six connections
   * to a server, for all its pages together, and so does a Worker: if subscriptions used all six, no call could be
   * sent. Default 3.
   */
  readonly maxStreams?: number | undefined;
  /**
   * The time after which a call without a reply is given up, in milliseconds, so that requests do not pile up. Default
   * 10,000.
   */
  readonly timeoutMs?: number | undefined;
  /** The function to use for requests. Default the host's `fetch`. */
  readonly fetch?: typeof fetch | undefined;
}

/**
 * Returns a `RedisClient` of Upstash's REST API. Each call is one HTTP request.
 *
 * @throws InvalidArgumentError for an option of the wrong type, for example from an environment variable that is not
 * set, and for a URL that is not http:// or https://
 */
export function upstash(options: UpstashOptions): RedisClient {
  const { url, token, maxStreams, timeoutMs } = checked(options);
  // `checked` has trimmed the values, because secret managers and environment files add line ends.
  const base = url.href.replace(/\/+$/, '');
  const headers: Record<string, string> = token ? { authorization: `Bearer ${token}` } : {};
  // Browsers refuse `fetch` as a method of another object, so this calls it as a plain function.
  const send = options.fetch ?? ((...request: Parameters<typeof fetch>) => fetch(...request));
  const run = async (...command: string[]) => {
    const response = await send(base, {
      method: 'POST',
      headers: { ...headers, 'content-type': 'application/json' },
      body: JSON.stringify(command),
      signal: AbortSignal.timeout(timeoutMs),
    });
    const answer = (await response.json().catch((error: unknown) => {
      if (!(error instanceof SyntaxError)) throw error;
      throw new Error(`the server answered with ${response.status} and no JSON; is it that of the REST API?`);
    })) as { result?: unknown; error?: string };
    if (answer.error !== undefined) throw refusal(response.status, answer.error);
    if (!response.ok) throw new Error(`the server answered with ${response.status}`);
    return answer.result;
  };
  const streams = new Streams(maxStreams, timeoutMs, (channel, signal) =>
    send(`${base}/subscribe/${encodeURIComponent(channel)}`, {
      headers: { ...headers, accept: 'text/event-stream' },
      signal,
    }),
  );
  return {
    name: url.host,
    eval: (script, keys, args, sha1) => runScript(run, { script, sha1 }, keys, args),
    ...(options.subscribe && {
      subscribe: (channel: string, onMessage: (message: string) => void): Promise<Unsubscribe> =>
        streams.open(channel, onMessage),
    }),
  };
}

/** The types of the options. */
const TYPES: Record<keyof UpstashOptions, string> = {
  url: 'string',
  token: 'string',
  subscribe: 'boolean',
  maxStreams: 'number',
  timeoutMs: 'number',
  fetch: 'function',
};

function checked(options: UpstashOptions) {
  const stray = wrongClientAdvice(options);
  if (stray !== undefined) throw invalid(`the options must be a url and a token, not ${stray}`);
  const url = options?.url instanceof URL ? options.url.href : options?.url;
  const { token, maxStreams = 3, timeoutMs = 10_000 } = adapterOptions({ ...options, url }, TYPES);
  if (url === undefined) throw wrongArgument('url', 'a string, the UPSTASH_REDIS_REST_URL', url);
  return { url: restUrl(url), token: token?.trim(), maxStreams, timeoutMs };
}

/** Parses the URL. No message repeats it, because it can contain a password. */
function restUrl(text: string): URL {
  const form = (what: string) => invalid(`url must ${what}, as https://example.upstash.io`);
  let url: URL;
  try {
    url = new URL(text.trim());
  } catch {
    throw form('be a URL, without quotes around it');
  }
  if (!/^https?:$/.test(url.protocol)) throw form('be that of the REST API, and not the one for Redis clients');
  if (url.username || url.password) throw form('have no user and no password, for which there is `token`');
  return url;
}

/**
 * Returns the error for a refused command. Not every error is the server's: a proxy can answer with a status of its
 * own.
 */
function refusal(status: number, error: string): Error {
  if (status === 401 || status === 403) return new ReplyError(`NOAUTH ${error}`);
  // Status 429 means too many requests: a later call can succeed, so this is no refusal of the command.
  return status < 500 && status !== 429 ? new ReplyError(error) : new Error(error);
}

/** The open requests with server-sent events: `data: subscribe,CHANNEL,1`, then `data: message,CHANNEL,TEXT`. */
class Streams {
  #free: number;
  readonly #timeoutMs: number;
  readonly #ask: (channel: string, signal: AbortSignal) => Promise<Response>;

  constructor(most: number, timeoutMs: number, ask: (channel: string, signal: AbortSignal) => Promise<Response>) {
    this.#free = most;
    this.#timeoutMs = timeoutMs;
    this.#ask = ask;
  }

  /**
   * Subscribes to a channel, and returns a function that ends the subscription. Rejects at the maximum number of
   * requests.
   */
  async open(channel: string, onMessage: (message: string) => void): Promise<Unsubscribe> {
    if (this.#free === 0) throw new Error('there are enough streams');
    this.#free -= 1;
    const ending = new AbortController();
    ending.signal.addEventListener('abort', () => {
      this.#free += 1;
    });
    const confirmed = new AbortController();
    void pause(this.#timeoutMs, confirmed.signal).then(() => ending.abort());
    try {
      const lines = await this.#begin(channel, ending.signal);
      confirmed.abort();
      void this.#readMessages(channel, lines, onMessage, ending.signal);
    } catch (error) {
      confirmed.abort();
      ending.abort();
      throw error;
    }
    return () => ending.abort();
  }

  /** Returns the lines of a stream that follow the confirmation. */
  async #begin(channel: string, signal: AbortSignal): Promise<AsyncGenerator<string, void>> {
    const response = await this.#ask(channel, signal);
    if (!response.ok || response.body === null) {
      await response.body?.cancel();
      throw new Error(`the server answered with ${response.status}`);
    }
    const lines = linesOf(response.body);
    for (;;) {
      const { value: line, done } = await lines.next();
      if (done) throw new Error('the server ended the stream');
      if (line.startsWith('data: subscribe,')) return lines;
    }
  }

  /** Passes messages on. If the stream ends by itself, opens it again; meanwhile waiters poll. */
  async #readMessages(
    channel: string,
    lines: AsyncGenerator<string, void>,
    onMessage: (message: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const head = `data: message,${channel},`;
    for (let current: typeof lines | undefined = lines; !signal.aborted; ) {
      try {
        current ??= await this.#begin(channel, signal);
        for await (const line of current) if (line.startsWith(head)) onMessage(line.slice(head.length));
      } catch {
        // The stream broke, or could not be opened yet.
      }
      current = undefined;
      if (!signal.aborted) await pause(PAUSE_MS);
    }
  }
}

/** The pause before a stream is opened again, in milliseconds. */
const PAUSE_MS = 500;

async function* linesOf(body: ReadableStream<Uint8Array>): AsyncGenerator<string, void> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + decoder.decode(value, { stream: true })).split(/\r?\n/);
    rest = lines.pop() as string;
    yield* lines;
  }
}

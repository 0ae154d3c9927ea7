// Servers for tests. A redis-server: on a free port, with nothing saved, to be paused, killed and looked into;
// and the embedded one, `steadlock serve`.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { randomInt } from 'node:crypto';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, ROOT } from './package.js';

/** The `steadlock` command. */
export const COMMAND = join(ROOT, 'target', 'release', 'steadlock');

export class RedisServer implements AsyncDisposable {
  readonly url: string;
  /** An ordinary client, to look at what is on the server and to tamper with it. */
  readonly store: Redis;
  readonly #port: number;
  readonly #folder: string;
  readonly #options: string[];
  #process: ChildProcess | undefined;

  private constructor(port: number, folder: string, options: string[]) {
    this.#port = port;
    this.#folder = folder;
    this.#options = options;
    this.url = `redis://127.0.0.1:${port}`;
    const password = options[options.indexOf('--requirepass') + 1];
    this.store = new Redis(port, '127.0.0.1', {
      ...(options.includes('--requirepass') && password ? { password } : {}),
      retryStrategy: () => 20,
      maxRetriesPerRequest: null,
    });
    // The client reconnects by itself; the error of a killed server is expected.
    this.store.on('error', () => {});
  }

  static async start(...options: string[]): Promise<RedisServer> {
    for (;;) {
      const folder = await mkdtemp(join(tmpdir(), 'steadlock-javascript-'));
      const server = new RedisServer(await freePort(), folder, options);
      const log = await server.#run();
      if (log === undefined) return server;
      await server[Symbol.asyncDispose]();
      assert.match(log, /Address already in use/);
    }
  }

  /** Starts it again, with the same port and without data. */
  async restart(): Promise<void> {
    assert.equal(await this.#run(), undefined);
  }

  /** Gives the log of a server that ended instead of being ready. Asks no other server that may have its port. */
  async #run(): Promise<string | undefined> {
    const args = ['--port', `${this.#port}`, '--save', '', '--appendonly', 'no', '--dir', this.#folder];
    const process = spawn('redis-server', [...args, ...this.#options], { stdio: ['ignore', 'pipe', 'ignore'] });
    this.#process = process;
    let log = '';
    for await (const text of process.stdout) {
      log += text;
      if (log.includes('Ready to accept connections')) return undefined;
    }
    return log;
  }

  /** It accepts connections and answers nothing. */
  pause(): void {
    this.#process?.kill('SIGSTOP');
  }

  resume(): void {
    this.#process?.kill('SIGCONT');
  }

  /** Ends it at once; its port refuses connections. */
  async kill(): Promise<void> {
    const process = this.#process;
    if (process === undefined) return;
    this.#process = undefined;
    await end(process, 'SIGKILL');
  }

  /** The keys that there are, but for what clients say of themselves. */
  async keys(): Promise<string[]> {
    return (await this.store.keys('*')).filter((key) => !key.endsWith(':client'));
  }

  /** How many script calls it has run. */
  async scriptCalls(): Promise<number> {
    const stats = await this.store.info('commandstats');
    const calls = [...stats.matchAll(/cmdstat_eval(?:sha)?:calls=(\d+)/g)];
    return calls.reduce((sum, [, count]) => sum + Number(count), 0);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.store.disconnect();
    await this.kill();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** `steadlock serve` on a free port. */
export class EmbeddedServer implements AsyncDisposable {
  private constructor(
    readonly url: string,
    /** Where its REST API is, if it has one. */
    readonly http: string,
    readonly process: ChildProcess,
  ) {}

  static async start(...options: string[]): Promise<EmbeddedServer> {
    assert.ok(existsSync(COMMAND), `${COMMAND} is not built: run ./ci/just build-cli`);
    const child = spawn(COMMAND, ['serve', '--port', '0', ...options], { stdio: ['ignore', 'pipe', 'ignore'] });
    let banner = '';
    for await (const text of child.stdout) {
      banner += text;
      const [url] = banner.match(/redis:\S+(?=\n)/) ?? [];
      const [http] = banner.match(/http:\S+(?=\n)/) ?? [];
      const isWhole = http !== undefined || !options.includes('--http');
      if (url !== undefined && isWhole) return new EmbeddedServer(url, http ?? '', child);
    }
    return assert.fail(`steadlock serve ended: ${banner}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await end(this.process, 'SIGTERM');
  }
}

/** Ends a process, if it has not ended by itself. */
export async function end(process: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return;
  const exit = once(process, 'exit');
  process.kill(signal);
  await exit;
}

/** Waits until the condition holds, and says after how many milliseconds it did. */
export async function eventually(limitMs: number, condition: () => unknown): Promise<number> {
  const started = performance.now();
  for (;;) {
    if (await condition()) return performance.now() - started;
    assert.ok(performance.now() - started < limitMs, `not within ${limitMs} ms: ${condition}`);
    await sleep(2);
  }
}

/** How long a promise takes to settle, in milliseconds. */
export async function elapsed(promise: PromiseLike<unknown>): Promise<number> {
  const started = performance.now();
  await Promise.allSettled([promise]);
  return performance.now() - started;
}

/**
 * A port that nobody listens on. It is none of those that systems give to outgoing connections, of which one might take
 * it before the server starts.
 */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(10_000, 32_000);
    const server = createServer();
    server.listen(port, '127.0.0.1');
    try {
      await once(server, 'listening');
    } catch {
      continue;
    }
    server.close();
    await once(server, 'close');
    return port;
  }
}

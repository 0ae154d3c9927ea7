// Servers for tests: a redis-server on a free port, without persistence, that tests can pause, kill and inspect; and
// the embedded server, `steadlock serve`.

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
  /** An ordinary client, with which tests read and change the data on the server. */
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
    // The client reconnects by itself. Errors while a test has killed the server are expected.
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

  /** Starts the server again, with the same port and without data. */
  async restart(): Promise<void> {
    assert.equal(await this.#run(), undefined);
  }

  /**
   * Starts the process. Returns the log if the process ended before it was ready. Reads readiness from the log and
   * makes no connection, because another server can have taken the port.
   */
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

  /** Stops the process: the server still accepts connections, but does not answer. */
  pause(): void {
    this.#process?.kill('SIGSTOP');
  }

  resume(): void {
    this.#process?.kill('SIGCONT');
  }

  /** Kills the process. The port then refuses connections. */
  async kill(): Promise<void> {
    const process = this.#process;
    if (process === undefined) return;
    this.#process = undefined;
    await end(process, 'SIGKILL');
  }

  /** Returns all keys but those with information about clients. */
  async keys(): Promise<string[]> {
    return (await this.store.keys('*')).filter((key) => !key.endsWith(':client'));
  }

  /** Returns how many script calls the server has run. */
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
    /** The URL of its REST API, if it has one. */
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

/** Ends a process, unless it has ended by itself. */
export async function end(process: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (process.exitCode !== null || process.signalCode !== null) return;
  const exit = once(process, 'exit');
  process.kill(signal);
  await exit;
}

/** Waits until the condition holds, and returns after how many milliseconds it did. */
export async function eventually(limitMs: number, condition: () => unknown): Promise<number> {
  const started = performance.now();
  for (;;) {
    if (await condition()) return performance.now() - started;
    assert.ok(performance.now() - started < limitMs, `not within ${limitMs} ms: ${condition}`);
    await sleep(2);
  }
}

/** Returns how long a promise takes to settle, in milliseconds. */
export async function elapsed(promise: PromiseLike<unknown>): Promise<number> {
  const started = performance.now();
  await Promise.allSettled([promise]);
  return performance.now() - started;
}

/**
 * Returns a port without a listener, for a server. The port is outside the range from which systems choose ports of
 * outgoing connections: one of these could occupy it before the server starts.
 */
export function freePort(): Promise<number> {
  return freePortBetween(10_000, 32_000);
}

/**
 * Returns a port without a listener, outside the range in which other tests start servers. `fetch` refuses some lower
 * ports.
 */
export function unusedPort(): Promise<number> {
  return freePortBetween(7_000, 10_000);
}

async function freePortBetween(first: number, end: number): Promise<number> {
  for (;;) {
    const port = randomInt(first, end);
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

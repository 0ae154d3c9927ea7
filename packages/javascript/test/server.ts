// Servers for tests. A redis-server: on a free port, with nothing saved, to be paused, killed and looked into;
// and the embedded one, `leasehold serve`.

import assert from 'node:assert/strict';
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { type AddressInfo, createServer, connect as dial } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { Redis, ROOT } from './package.js';

/** The `leasehold` command. */
export const COMMAND = join(ROOT, 'target', 'release', 'leasehold');

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
    // It reconnects by itself; that a killed server is away is no news.
    this.store.on('error', () => {});
  }

  static async start(...options: string[]): Promise<RedisServer> {
    const folder = await mkdtemp(join(tmpdir(), 'leasehold-javascript-'));
    const server = new RedisServer(await freePort(), folder, options);
    await server.restart();
    return server;
  }

  /** Starts it again, with the same port and without data. */
  async restart(): Promise<void> {
    const args = ['--port', `${this.#port}`, '--save', '', '--appendonly', 'no', '--dir', this.#folder];
    this.#process = spawn('redis-server', [...args, ...this.#options], { stdio: 'ignore' });
    await eventually(10_000, () => answers(this.#port));
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
    process.kill('SIGKILL');
    await once(process, 'exit');
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

/** `leasehold serve` on a free port. */
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
    return assert.fail(`leasehold serve ended: ${banner}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.process.kill();
    await once(this.process, 'exit');
  }
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

export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, 'close');
  return port;
}

function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = dial(port, '127.0.0.1', () => socket.end('PING\r\n'));
    socket.once('data', () => resolve(true));
    socket.once('error', () => resolve(false));
    socket.once('close', () => resolve(false));
  });
}

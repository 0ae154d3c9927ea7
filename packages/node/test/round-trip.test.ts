// Tests with a server so far away that a short lease expires before its grant arrives.

import assert from 'node:assert/strict';
import { once } from 'node:events';
import { type AddressInfo, createServer, connect as dial, type Socket } from 'node:net';
import { describe, it } from 'node:test';
import { type Client, connect, type Lock, type Semaphore, UnavailableError } from 'steadlock';
import { RedisServer } from './server.js';

const DELAY_EACH_WAY_MS = 60;
const SHORT_MS = 100;
const LONG_MS = 5_000;
/** No wait may take longer than this, even on a busy machine. */
const LIMIT_MS = 20_000;
const REASON = new RegExp(
  'it was granted too late to be relied on: the answer took [\\d.]+m?s, ' +
    'and a lease of 100ms may be relied on for 79ms; the lease must be longer than [\\d.]+m?s',
);

/** A proxy that passes all data on after the delay. */
class DistantServer implements AsyncDisposable {
  readonly #sockets = new Set<Socket>();
  readonly #proxy;

  private constructor(port: number) {
    this.#proxy = createServer((client) => {
      const server = dial(port, '127.0.0.1');
      this.#passOn(client, server);
      this.#passOn(server, client);
    });
  }

  static async of(server: RedisServer): Promise<DistantServer> {
    const far = new DistantServer(Number(new URL(server.url).port));
    far.#proxy.listen(0, '127.0.0.1');
    await once(far.#proxy, 'listening');
    return far;
  }

  get url(): string {
    return `redis://127.0.0.1:${(this.#proxy.address() as AddressInfo).port}`;
  }

  #passOn(from: Socket, to: Socket): void {
    this.#sockets.add(from);
    from.setNoDelay();
    from.on('data', (data) => setTimeout(() => to.write(data), DELAY_EACH_WAY_MS));
    from.on('close', () => to.destroy());
    from.on('error', () => {});
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    this.#proxy.close();
    await once(this.#proxy, 'close');
  }
}

type Acquire = (waitMs?: number) => ReturnType<Lock['lock']>;

/** Acquisitions of several kinds of locks, each with a name of its own. */
function kinds(client: Client, name: string, leaseMs: number): Acquire[] {
  const locks = [client.lock(`${name}:lock`), client.fairLock(`${name}:fair`), client.mutex(`${name}:mutex`)];
  const permits: Semaphore = client.semaphore(`${name}:semaphore`, 1);
  return [
    ...locks.map(
      (lock): Acquire =>
        (waitMs) =>
          lock.lock({ leaseMs, waitMs }),
    ),
    (waitMs) => permits.acquire(1, { leaseMs, waitMs }),
  ];
}

describe('a server whose answers take longer than the lease', () => {
  it('refuses each wait with the reason and advice', { timeout: 3 * LIMIT_MS }, async () => {
    await using server = await RedisServer.start();
    await using far = await DistantServer.of(server);
    await using client = await connect(far.url);
    const isRefused = async (acquire: Acquire, waitMs: number | undefined) => {
      const started = performance.now();
      const error = await acquire(waitMs).catch((error: unknown) => error);
      const took = performance.now() - started;
      assert.ok(error instanceof UnavailableError, `${error}`);
      assert.match(error.message, REASON);
      assert.ok(error.retryable);
      assert.ok(took >= (waitMs ?? 0) && took < LIMIT_MS, `${waitMs}: ${took} ms`);
    };
    const waits = [undefined, 1_000, 0].map((waitMs) =>
      kinds(client, `${waitMs}`, SHORT_MS).map((acquire) => isRefused(acquire, waitMs)),
    );
    await Promise.all(waits.flat());
    // A longer lease works.
    for (const acquire of kinds(client, '1000', LONG_MS)) {
      assert.equal(await (await acquire(LIMIT_MS)).release(), 'released');
    }
  });
});

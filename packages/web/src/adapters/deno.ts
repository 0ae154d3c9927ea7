/** The adapter for Deno, which needs no other client: `connect(deno('redis://127.0.0.1:6379'))`. */

import { invalid } from '../adapter-arguments.js';
import type { Socket } from './resp.js';
import { type TcpClient, type TcpOptions, tcp } from './tcp.js';

export type { TcpClient, TcpOptions } from './tcp.js';

interface Deno {
  connect(address: { hostname: string; port: number }): Promise<Socket>;
  connectTls(address: { hostname: string; port: number }): Promise<Socket>;
}

/**
 * Returns a `RedisClient` on `Deno.connect`. Its two connections are opened at their first use, and opened again after
 * they end. Needs the permission `--allow-net`.
 *
 * @param url `redis://[user:password@]host[:port][/db]`, or `rediss://` with TLS; `valkey` is accepted in place of
 * `redis`
 * @throws InvalidArgumentError for a malformed URL or another scheme, and if the host is not Deno
 */
export function deno(url: string | URL, options?: TcpOptions): TcpClient {
  const { Deno } = globalThis as unknown as { readonly Deno?: Deno };
  if (Deno === undefined) throw invalid('this host is not Deno; in Node and Bun use ioredis or node-redis');
  const { connect, connectTls } = Deno;
  return tcp(url, ({ hostname, port, tls }) => (tls ? connectTls : connect)({ hostname, port }), options);
}

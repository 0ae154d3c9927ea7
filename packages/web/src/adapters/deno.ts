/** For Deno, without any other client: `connect(deno('redis://127.0.0.1:6379'))`. */

import type { Socket } from './resp.js';
import { type TcpClient, type TcpOptions, tcp } from './tcp.js';

export type { TcpClient, TcpOptions } from './tcp.js';

interface Deno {
  connect(address: { hostname: string; port: number }): Promise<Socket>;
  connectTls(address: { hostname: string; port: number }): Promise<Socket>;
}

/**
 * A `RedisClient` on `Deno.connect`, with two connections that are opened at their first use, and again when they end.
 * Needs the permission `--allow-net`.
 *
 * @param url `redis://[user:password@]host[:port][/db]`, or `rediss://` with TLS; `valkey` may stand for `redis`
 */
export function deno(url: string, options?: TcpOptions): TcpClient {
  const { connect, connectTls } = (globalThis as unknown as { Deno: Deno }).Deno;
  return tcp(url, ({ hostname, port, tls }) => (tls ? connectTls : connect)({ hostname, port }), options);
}

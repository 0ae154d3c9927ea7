/** The adapter for Cloudflare Workers, which needs no other client: `connect(workers(env.REDIS_URL))`. */

import { connect } from 'cloudflare:sockets';
import { type TcpClient, type TcpOptions, tcp } from './tcp.js';

export type { TcpClient, TcpOptions } from './tcp.js';

/**
 * Returns a `RedisClient` on Workers' TCP sockets. Its two connections are opened at their first use, and opened again
 * after they end. A socket belongs to the request that opened it, so make a client in each request, and close it there.
 *
 * @param url `redis://[user:password@]host[:port][/db]`, or `rediss://` with TLS; `valkey` is accepted in place of
 * `redis`
 * @throws InvalidArgumentError for a malformed URL or another scheme
 */
export function workers(url: string | URL, options?: TcpOptions): TcpClient {
  return tcp(
    url,
    ({ hostname, port, tls }) => connect({ hostname, port }, { secureTransport: tls ? 'on' : 'off' }),
    options,
  );
}

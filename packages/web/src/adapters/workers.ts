/** For Cloudflare Workers, without any other client: `connect(workers(env.REDIS_URL))`. */

import { connect } from 'cloudflare:sockets';
import { type TcpClient, type TcpOptions, tcp } from './tcp.js';

export type { TcpClient, TcpOptions } from './tcp.js';

/**
 * A `RedisClient` on Workers' TCP sockets, with two connections that are opened at their first use, and again when they
 * end. A socket belongs to the request that opened it: make a client in each request, and close it there.
 *
 * @param url `redis://[user:password@]host[:port][/db]`, or `rediss://` with TLS; `valkey` may stand for `redis`
 * @throws InvalidArgumentError for something else
 */
export function workers(url: string | URL, options?: TcpOptions): TcpClient {
  return tcp(
    url,
    ({ hostname, port, tls }) => connect({ hostname, port }, { secureTransport: tls ? 'on' : 'off' }),
    options,
  );
}

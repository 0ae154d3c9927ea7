// The contender in WebAssembly. By default it uses ioredis and listens to notifications; with `--listen 0` it only
// polls. With `--http URL` it uses a REST API.

import { contend, Redis, url, values } from './javascript.mjs';

const { connect } = await import('../../../packages/web/dist/index.js');
const { ioredis } = await import('../../../packages/web/dist/adapters/ioredis.js');
const { upstash } = await import('../../../packages/web/dist/adapters/upstash.js');

const listens = values.listen !== '0';
const connections = [];
const connection = () => {
  connections.push(new Redis(url));
  return connections.at(-1);
};
const redis = values.http
  ? upstash({ url: values.http, subscribe: listens })
  : ioredis(connection(), listens ? connection() : undefined);

// In the other languages, leases are renewed by default.
await contend((options) => connect(redis, { renew: true, ...options }));
for (const one of connections) one.disconnect();

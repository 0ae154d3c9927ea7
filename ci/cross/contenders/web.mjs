// The contender in WebAssembly: through ioredis, which listens unless `--listen 0` says that it polls; or, with `--http
// URL`, through a REST API.

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

// The other languages renew by themselves.
await contend((options) => connect(redis, { renew: true, ...options }));
for (const one of connections) one.disconnect();

// A Worker that runs the scenario at each request: over TCP, or with ?http=URL over a REST API. /frozen reports what its
// clock does during a computation.

// Named imports let a bundler leave out unused code.
import { connect, LockLostError, LockTimeoutError, UnavailableError } from 'steadlock-web';
import { upstash } from 'steadlock-web/upstash';
import { workers } from 'steadlock-web/workers';
import { scenario } from './scenario.mjs';

const steadlock = { connect, LockLostError, LockTimeoutError, UnavailableError };

export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    const [url, unreachable, http] = ['url', 'unreachable', 'http'].map((name) => searchParams.get(name));
    if (pathname === '/frozen') return Response.json(await frozen(workers(url)));
    if (http !== null) {
      return Response.json(await scenario(steadlock, upstash({ url: http }), upstash({ url: unreachable })));
    }
    const [redis, down] = [workers(url), workers(unreachable)];
    const lines = await scenario(steadlock, redis, down);
    redis.close();
    down.close();
    return Response.json(lines);
  },
};

/** Acquires a lease of 400 ms, and computes for longer than that. */
async function frozen(redis) {
  const client = await connect(redis);
  const lease = await client.lock(`frozen-${crypto.randomUUID()}`, { leaseMs: 400 }).lock();
  let sum = 0;
  for (let round = 0; round < 3e9; round += 1) sum += round & 1;
  const believed = lease.isValid;
  const asked = await lease.extend().then(
    () => 'extended',
    (error) => error.kind,
  );
  const after = lease.isValid;
  await client.close();
  redis.close();
  return { sum, believed, asked, after };
}

// A Worker that plays the story at each request, over TCP; with ?http=URL over a REST API. /frozen tells what its clock
// does while it computes.

// By their names, so that a bundler may leave out all that they do not need.
import { connect, LockLostError, LockTimeoutError, UnavailableError } from 'steadlock-web';
import { upstash } from 'steadlock-web/upstash';
import { workers } from 'steadlock-web/workers';
import { story } from './story.mjs';

const steadlock = { connect, LockLostError, LockTimeoutError, UnavailableError };

export default {
  async fetch(request) {
    const { pathname, searchParams } = new URL(request.url);
    const [url, unreachable, http] = ['url', 'unreachable', 'http'].map((name) => searchParams.get(name));
    if (pathname === '/frozen') return Response.json(await frozen(workers(url)));
    if (http !== null) {
      return Response.json(await story(steadlock, upstash({ url: http }), upstash({ url: unreachable })));
    }
    const [redis, nobody] = [workers(url), workers(unreachable)];
    const lines = await story(steadlock, redis, nobody);
    redis.close();
    nobody.close();
    return Response.json(lines);
  },
};

/** A lease of 400 ms, and a computation that takes longer. */
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

// Tests of releases after `close()`, with the program's own Redis client.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { connect, type RedisClient, redlock } from 'steadlock-web';
import { ioredis } from 'steadlock-web/ioredis';
import { closing } from './closing.js';
import { Redis } from './package.js';
import { eventually, RedisServer } from './server.js';

let server: RedisServer;
let redis: Redis;

before(async () => {
  server = await RedisServer.start();
  redis = new Redis(server.url);
});

after(async () => {
  redis.disconnect();
  await server[Symbol.asyncDispose]();
});

closing(() => connect(ioredis(redis)));

describe('a release after close()', () => {
  it('of a RedLock is released', async () => {
    const servers = await Promise.all([1, 2, 3].map(() => RedisServer.start()));
    const connections = servers.map(({ url }) => new Redis(url));
    const client = await redlock(connections.map((one) => ioredis(one)));
    const lease = await client.lock('three').lock();
    await client.close();
    assert.equal(await lease.release(), 'released');
    for (const one of connections) one.disconnect();
    await Promise.all(servers.map((one) => one[Symbol.asyncDispose]()));
  });

  it('returns unknown if the connection is closed or the server is silent', async () => {
    const own = new Redis(server.url);
    const client = await connect(ioredis(own));
    const lease = await client.lock('gone').lock();
    own.disconnect();
    await client.close();
    assert.equal(await lease.release(), 'unknown');

    let isSilent = false;
    const silent: RedisClient['eval'] = (...call) => (isSilent ? new Promise(() => {}) : ioredis(redis).eval(...call));
    const other = await connect({ eval: silent });
    const held = await other.lock('silent').lock();
    isSilent = true;
    const started = performance.now();
    await other.close();
    assert.equal(await held.release(), 'unknown');
    assert.ok(performance.now() - started < 2_000);
  });

  it('of a lost lease returns the loss', async () => {
    const client = await connect(ioredis(redis));
    const lease = await client.lock('lost').lock({ leaseMs: 100 });
    await eventually(5_000, () => lease.lostReason === 'expired');
    await client.close();
    assert.equal(await lease.release(), 'expired');
    assert.equal(lease.lostReason, 'expired');
  });
});

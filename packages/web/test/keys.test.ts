// Tests of clients that rename keys, themselves or by a proxy. Such a client is refused, because its locks would
// exclude no other service.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Cluster } from 'ioredis';
import { createClient } from 'redis';
import { connect, LockTimeoutError, MisconfiguredError, type RedisClient, redlock } from 'steadlock-web';
import { ioredis } from 'steadlock-web/ioredis';
import { nodeRedis } from 'steadlock-web/node-redis';
import { upstash } from 'steadlock-web/upstash';
import { Redis } from './package.js';
import { EmbeddedServer, eventually, RedisServer } from './server.js';

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

/** Adds a prefix to every key, as some clients and proxies do. */
function renaming(client: RedisClient): RedisClient {
  return {
    ...client,
    eval: (script, keys, ...rest) =>
      client.eval(
        script,
        keys.map((key) => `app:${key}`),
        ...rest,
      ),
  };
}

const isRefused = (error: unknown) =>
  error instanceof MisconfiguredError && !error.retryable && /prefix/.test(error.message);

describe('renamed keys', () => {
  it('by ioredis are detected by the adapter', async () => {
    const options = { lazyConnect: true };
    for (const [client, advice] of [
      [new Redis({ ...options, keyPrefix: 'app:' }), /redis\.duplicate\(\{ keyPrefix: '' \}\)/],
      [new Redis({ ...options, keyPrefix: Buffer.from('app:') as never }), /keyPrefix/],
      [new Cluster([{ port: 1 }], { ...options, keyPrefix: 'app:' }), /keyPrefix/],
      [new Cluster([{ port: 1 }], { ...options, redisOptions: { keyPrefix: 'app:' } }), /keyPrefix/],
      [new Redis({ ...options, stringNumbers: true }), /stringNumbers/],
      [new Cluster([{ port: 1 }], { ...options, redisOptions: { stringNumbers: true } }), /stringNumbers/],
    ] as const) {
      assert.throws(
        () => ioredis(client as Redis),
        (error) => error instanceof MisconfiguredError && error.operation === 'connect' && advice.test(error.message),
      );
    }
    // The advice of the error message works.
    const prefixed = new Redis(server.url, { keyPrefix: 'app:' });
    const plain = prefixed.duplicate({ keyPrefix: '' });
    await using client = await connect(ioredis(plain, prefixed));
    const lease = await client.lock('of-a-duplicate').lock();
    assert.equal(await redis.exists('of-a-duplicate'), 1);
    // The subscriber can have a prefix, because ioredis does not add it to channels.
    await using other = await connect(ioredis(redis));
    const waiting = client.lock('events', { waitMs: 10_000 });
    const held = await other.lock('events').lock();
    setTimeout(() => held.release(), 300);
    await (await waiting.lock()).release();
    await lease.release();
    plain.disconnect();
    prefixed.disconnect();
  });

  it('are detected by connect(), without a further round trip', async () => {
    let calls = 0;
    const counted: RedisClient = {
      ...ioredis(redis),
      eval: (...call) => {
        calls += 1;
        return ioredis(redis).eval(...call);
      },
    };
    // From here on the server knows the script.
    await (await connect(counted)).close();
    calls = 0;
    await (await connect(counted)).close();
    assert.equal(calls, 1);
    const started = performance.now();
    await assert.rejects(connect(renaming(counted), { connectTimeoutMs: 30_000 }), isRefused);
    assert.ok(performance.now() - started < 10_000);
    const rest = await EmbeddedServer.start('--http', '0');
    await assert.rejects(connect(renaming(upstash({ url: rest.http }))), isRefused);
    await rest[Symbol.asyncDispose]();
  });

  it('are not caused by the prefix of node-redis', async () => {
    const prefixed = await createClient({ url: server.url, keyPrefix: 'app:' }).connect();
    await using client = await connect(nodeRedis(prefixed));
    await using native = await connect(ioredis(redis));
    const lease = await client.lock('raw').lock();
    await assert.rejects(native.lock('raw').lock({ waitMs: 0 }), LockTimeoutError);
    await lease.release();
    prefixed.destroy();
  });

  it('are detected at the first use of a lazy client', async () => {
    await using client = await connect(renaming(ioredis(redis)), { lazy: true });
    for (let time = 0; time < 2; time += 1) {
      await assert.rejects(client.lock('lazy').lock({ waitMs: 0 }), isRefused);
    }
    assert.deepEqual((await redis.keys('*lazy*')).length, 0);
    let isDown = true;
    const late: RedisClient['eval'] = (...call) =>
      isDown ? Promise.reject(new Error('down')) : renaming(ioredis(redis)).eval(...call);
    await using returning = await connect({ eval: late }, { lazy: true });
    await assert.rejects(returning.lock('lazy').lock({ waitMs: 100 }), { kind: 'Unavailable' });
    isDown = false;
    await assert.rejects(returning.lock('lazy').lock({ waitMs: 0 }), isRefused);
    assert.deepEqual((await redis.keys('*lazy*')).length, 0);
  });

  it('of one of several primaries are refused, or that primary is left out', async () => {
    const others = await Promise.all([RedisServer.start(), RedisServer.start()]);
    const clients = [redis, ...others.map(({ store }) => store)].map((one) => ioredis(one));
    const [first, second, third] = clients as [RedisClient, RedisClient, RedisClient];
    await assert.rejects(redlock([first, second, renaming(third)]), isRefused);
    let answered = 0;
    const late: RedisClient = {
      ...third,
      async eval(...call) {
        answered += 1;
        if (answered === 1) throw new Error('down');
        return renaming(third).eval(...call);
      },
    };
    await using client = await redlock([first, second, late]);
    await eventually(5_000, () => answered > 2);
    const lease = await client.lock('minority').lock();
    assert.deepEqual(await others[1]?.store.keys('*minority*'), []);
    await lease.release();
    for (const other of others) await other[Symbol.asyncDispose]();
  });

  it('do not matter for users with access to their own keys only', async () => {
    const rules = ['resetkeys', '~mine:*', '&*', '+@all'];
    await redis.call('ACL', 'SETUSER', 'tenant', 'reset', 'on', '>secret', ...rules);
    const url = server.url.replace('//', '//tenant:secret@');
    const tenant = new Redis(url);
    await (await connect(ioredis(tenant))).close();
    await (await connect(ioredis(tenant), { keyPrefix: 'mine:' })).close();
    tenant.disconnect();
  });

  it('are not confused with an invalid reply of the probe', async () => {
    for (const answer of [null, 1, 'OK', [], ['', 1], {}, [['a'], 1]] as never[]) {
      await assert.rejects(connect({ eval: () => answer }), (error) => error instanceof MisconfiguredError);
    }
    // Replies have numbers as text, as from ioredis with `stringNumbers`.
    const text: RedisClient['eval'] = async (...call) =>
      ((await ioredis(redis).eval(...call)) as never[]).map((item) => `${item}`);
    await assert.rejects(connect({ eval: text }), /numbers/);
    // Replies have text as bytes, as from node-redis if it is so configured.
    const bytes: RedisClient['eval'] = async (...call) =>
      ((await ioredis(redis).eval(...call)) as unknown[]).map((item) =>
        typeof item === 'string' ? new TextEncoder().encode(item) : item,
      ) as never;
    await (await connect({ eval: bytes })).close();
  });
});

// Tests `steadlock serve --http` with the official client of Upstash's REST API.

import assert from 'node:assert/strict';
import { after, before, describe, test } from 'node:test';
import { Redis } from '@upstash/redis';
import { serve } from './server.mjs';

const TOKEN = 's3cret';

let server;

before(async () => {
  server = await serve(TOKEN);
});

after(() => server.stop());

/** Returns a client of the server. */
function connect(options = {}) {
  return new Redis({ url: server.url, token: TOKEN, enableTelemetry: false, ...options });
}

/** Calls a function, and returns the paths of the requests that it makes. */
async function pathsOf(work) {
  const { fetch } = globalThis;
  const paths = [];
  globalThis.fetch = (url, init) => {
    paths.push(new URL(url).pathname);
    return fetch(url, init);
  };
  try {
    await work();
  } finally {
    globalThis.fetch = fetch;
  }
  return paths;
}

for (const responseEncoding of ['base64', false]) {
  for (const enableAutoPipelining of [true, false]) {
    describe(`encoding ${responseEncoding}, automatic pipelining ${enableAutoPipelining}`, () => {
      const prefix = `${responseEncoding}:${enableAutoPipelining}:`;
      const open = (options) => connect({ responseEncoding, enableAutoPipelining, ...options });

      test('values are returned unchanged', async () => {
        const redis = open();
        const key = `${prefix}value`;
        for (const value of ['text', 'Zürich 🔒', '', 'OK', 'T0s=', 17, 1.5, true, { a: [1, null] }, [1, 'a']]) {
          assert.equal(await redis.set(key, value), 'OK');
          assert.deepEqual(await redis.get(key), value);
        }
        assert.equal(await redis.get(`${prefix}nothing`), null);
        assert.equal(await redis.del(key), 1);
        assert.equal(await redis.exists(key), 0);
        const raw = open({ automaticDeserialization: false });
        await raw.set(key, '{"a": 1}');
        assert.equal(await raw.get(key), '{"a": 1}');
      });

      test('keys expire', async () => {
        const redis = open();
        const key = `${prefix}expiring`;
        assert.equal(await redis.set(key, 1, { px: 60_000, nx: true }), 'OK');
        assert.equal(await redis.set(key, 2, { nx: true }), null);
        const left = await redis.pttl(key);
        assert.ok(left > 0 && left <= 60_000, `${left}`);
        assert.equal(await redis.expire(key, 100), 1);
        assert.equal(await redis.ttl(key), 100);
        assert.equal(await redis.persist(key), 1);
        assert.equal(await redis.ttl(key), -1);
      });

      test('counters count', async () => {
        const redis = open();
        const key = `${prefix}counter`;
        assert.equal(await redis.incr(key), 1);
        assert.equal(await redis.incrby(key, 41), 42);
        assert.equal(await redis.decr(key), 41);
        assert.equal(await redis.get(key), 41);
      });

      test('hashes, lists, sets and sorted sets', async () => {
        const redis = open();
        const [hash, list, set, zset] = ['hash', 'list', 'set', 'zset'].map((name) => prefix + name);
        assert.equal(await redis.hset(hash, { a: 1, b: 'two' }), 2);
        assert.deepEqual(await redis.hgetall(hash), { a: 1, b: 'two' });
        assert.deepEqual(await redis.hmget(hash, 'a', 'c'), { a: 1, c: null });
        assert.equal(await redis.hincrby(hash, 'a', 2), 3);
        assert.equal(await redis.hlen(hash), 2);
        assert.equal(await redis.hdel(hash, 'a'), 1);
        assert.equal(await redis.rpush(list, 'a', 'b', 'c'), 3);
        assert.deepEqual(await redis.lrange(list, 0, -1), ['a', 'b', 'c']);
        assert.equal(await redis.lpop(list), 'a');
        assert.equal(await redis.sadd(set, 'x', 'y'), 2);
        assert.deepEqual((await redis.smembers(set)).sort(), ['x', 'y']);
        assert.equal(await redis.sismember(set, 'x'), 1);
        assert.equal(await redis.zadd(zset, { score: 1.5, member: 'a' }, { score: 2, member: 'b' }), 2);
        assert.equal(await redis.zscore(zset, 'a'), 1.5);
        assert.deepEqual(await redis.zrange(zset, 0, -1, { withScores: true }), ['a', 1.5, 'b', 2]);
        assert.equal(await redis.zrank(zset, 'b'), 1);
        assert.equal(await redis.zcard(zset), 2);
        assert.equal(await redis.type(zset), 'zset');
      });

      test('scripts run, by their text and by their digest', async () => {
        const redis = open();
        const text = "return {1, ARGV[1], false, {KEYS[1], tonumber(ARGV[2])}, redis.status_reply('OK')}";
        const expected = [1, 'text', null, [`${prefix}k`, 7], 'OK'];
        assert.deepEqual(await redis.eval(text, [`${prefix}k`], ['text', 7]), expected);
        const sha = await redis.scriptLoad(text);
        assert.match(sha, /^[0-9a-f]{40}$/);
        assert.deepEqual(await redis.evalsha(sha, [`${prefix}k`], ['text', 7]), expected);
        assert.deepEqual(await redis.scriptExists(sha, '0'.repeat(40)), [1, 0]);
        await assert.rejects(redis.evalsha('0'.repeat(40), [], []), /NOSCRIPT/);
        const script = redis.createScript(`return ARGV[1] .. '${prefix}'`);
        // The server does not have the script yet, so the client sends its text too.
        assert.equal(await script.exec([], ['a']), `a${prefix}`);
        assert.equal(await script.exec([], ['b']), `b${prefix}`);
      });

      test('a pipeline', async () => {
        const redis = open();
        const key = `${prefix}pipeline`;
        const paths = await pathsOf(async () => {
          const pipeline = redis.pipeline().set(key, 1).incr(key).get(key).hgetall(`${prefix}none`);
          assert.deepEqual(await pipeline.exec(), ['OK', 2, 2, null]);
        });
        assert.deepEqual(paths, ['/pipeline']);
        const broken = () => redis.pipeline().set(key, 'text').incr(key).get(key);
        await assert.rejects(broken().exec(), /Command 2 \[ incr \] failed: ERR value is not an integer/);
        const kept = await broken().exec({ keepErrors: true });
        assert.equal(kept[2].result, 'text');
        assert.match(kept[1].error, /^ERR value is not an integer/);
      });

      test('a transaction', async () => {
        const redis = open();
        const key = `${prefix}transaction`;
        const paths = await pathsOf(async () => {
          assert.deepEqual(await redis.multi().set(key, 'a').get(key).exec(), ['OK', 'a']);
        });
        assert.deepEqual(paths, ['/multi-exec']);
        // This server has no bitmaps, so it executes nothing of the transaction.
        await assert.rejects(redis.multi().set(key, 'b').bitcount(key).exec(), /EXECABORT .*unknown command/);
        assert.equal(await redis.get(key), 'a');
      });

      test('errors are reported', async () => {
        const redis = open();
        const key = `${prefix}wrong`;
        await redis.set(key, 'text');
        await assert.rejects(redis.lpush(key, 1), /WRONGTYPE/);
        await assert.rejects(redis.incr(key), /ERR value is not an integer/);
        await assert.rejects(redis.bitcount(key), /ERR unknown command 'bitcount'/);
      });

      test('commands of one tick are pipelined if the option is set', async () => {
        const redis = open();
        const key = `${prefix}auto`;
        const paths = await pathsOf(async () => {
          const all = [redis.set(key, 1), redis.incr(key), redis.get(`${prefix}none`), redis.incrby(key, 3)];
          assert.deepEqual(await Promise.all(all), ['OK', 2, null, 5]);
        });
        assert.deepEqual(new Set(paths), new Set([enableAutoPipelining ? '/pipeline' : '/']));
      });
    });
  }
}

test('messages are received', async () => {
  const redis = connect();
  const channel = 'chan:1';
  const subscription = redis.subscribe(channel);
  const received = [];
  const all = new Promise((resolve, reject) => {
    subscription.on('message', ({ channel, message }) => {
      received.push([channel, message]);
      if (received.length === 4) resolve();
    });
    subscription.on('error', reject);
  });
  const count = await new Promise((resolve) => {
    subscription.on('subscribe', resolve);
  });
  assert.equal(count, 1);
  for (const message of ['hello', 'a, b', { n: 1 }, 7]) {
    assert.equal(await redis.publish(channel, message), 1);
  }
  await all;
  assert.deepEqual(
    received,
    ['hello', 'a, b', { n: 1 }, 7].map((message) => [channel, message]),
  );
  await subscription.unsubscribe();
  while ((await redis.publish(channel, 'nobody')) !== 0);
});

test('patterns are refused as unknown', async () => {
  const subscription = connect().psubscribe('chan:*');
  const error = await new Promise((resolve) => {
    subscription.on('error', resolve);
  });
  assert.match(error.message, /unknown command 'psubscribe'/);
});

test('a wrong token is refused', async () => {
  const redis = connect({ token: 'wrong' });
  await assert.rejects(redis.get('k'), /WRONGPASS invalid or missing auth token/);
  const response = await fetch(server.url, {
    method: 'POST',
    headers: { authorization: 'Bearer wrong' },
    body: '["PING"]',
  });
  assert.equal(response.status, 401);
});

test('many clients at once get their own answers', async () => {
  const redis = connect({ enableAutoPipelining: false });
  const numbers = Array.from({ length: 200 }, (_, number) => number);
  const echoes = await Promise.all(numbers.map((number) => redis.eval('return ARGV[1]', [], [`${number}`])));
  assert.deepEqual(echoes, numbers);
  const counts = await Promise.all(numbers.map(() => redis.incr('many')));
  assert.deepEqual(
    counts.sort((a, b) => a - b),
    numbers.map((number) => number + 1),
  );
});

test('an event source works with its token in the query', async () => {
  const response = await fetch(`${server.url}/subscribe/page?_token=${TOKEN}`);
  assert.equal(response.headers.get('content-type'), 'text/event-stream');
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const next = async (until) => {
    let text = '';
    while (!text.endsWith(until)) text += (await reader.read()).value;
    return text;
  };
  assert.equal(await next('\n\n'), 'data: subscribe,page,1\n\n');
  await connect().publish('page', 'two\nlines');
  assert.equal(await next('\n\n'), 'data: message,page,two\ndata: lines\n\n');
  await reader.cancel();
});

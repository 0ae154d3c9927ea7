// Tests of the adapters on a real server: replies of scripts, refusals of the server, and messages of any text.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { connect as dial } from 'node:net';
import { Readable, Writable } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import { createClient } from 'redis';
import { InvalidArgumentError, type RedisClient, type Reply } from 'steadlock-web';
import type { TcpClient, TcpOptions } from 'steadlock-web/deno';
import { ioredis } from 'steadlock-web/ioredis';
import { nodeRedis } from 'steadlock-web/node-redis';
import { upstash } from 'steadlock-web/upstash';
import { Redis, ROOT } from './package.js';
import { EmbeddedServer, eventually, RedisServer } from './server.js';

type Address = { readonly hostname: string; readonly port: number };
type Socket = import('../src/adapters/resp.js').Socket;

/** The module `tcp.ts`, which the package does not export. */
interface Tcp {
  tcp(url: string | URL, open: (address: Address) => Socket, options?: TcpOptions): TcpClient;
}

const ADAPTERS = `${ROOT}packages/web/dist/adapters`;
const { tcp } = (await import(`${ADAPTERS}/tcp.js`)) as Tcp;

/** Makes a client with the adapter of Deno and Workers, on Node's sockets. */
function onSockets(url: string, timeoutMs?: number, onDial = () => {}) {
  const open = ({ hostname, port }: { hostname: string; port: number }) => {
    onDial();
    const socket = dial(port, hostname);
    const readable = Readable.toWeb(socket) as ReadableStream<Uint8Array>;
    return { readable, writable: Writable.toWeb(socket) as WritableStream<Uint8Array>, close: () => socket.destroy() };
  };
  return tcp(url, open, { timeoutMs });
}

interface Made {
  readonly client: RedisClient;
  close(): unknown;
}

const MAKERS: Record<string, (server: RedisServer, rest: EmbeddedServer) => Promise<Made>> = {
  async ioredis({ url }) {
    const connections = [new Redis(url), new Redis(url)] as const;
    return { client: ioredis(...connections), close: () => connections.map((one) => one.disconnect()) };
  },
  async 'node-redis'({ url }) {
    const client = await createClient({ url }).connect();
    const listener = await createClient({ url }).connect();
    return { client: nodeRedis(client, listener), close: () => [client.destroy(), listener.destroy()] };
  },
  async tcp({ url }) {
    const client = onSockets(url);
    return { client, close: () => client.close() };
  },
  upstash: async (_, { http }) => ({ client: upstash({ url: `${http}/`, subscribe: true }), close() {} }),
};

for (const [name, make] of Object.entries(MAKERS)) {
  describe(name, () => {
    let server: RedisServer;
    let rest: EmbeddedServer;
    let store: Redis;
    let made: Made;

    before(async () => {
      server = await RedisServer.start();
      rest = await EmbeddedServer.start('--http', '0');
      store = new Redis(name === 'upstash' ? rest.url : server.url);
      made = await make(server, rest);
    });

    after(async () => {
      await made.close();
      store.disconnect();
      await rest[Symbol.asyncDispose]();
      await server[Symbol.asyncDispose]();
    });

    const run = (script: string, keys: string[] = [], args: string[] = []) =>
      Promise.resolve(made.client.eval(script, keys, args, sha1(script)));

    it('names its server', () => {
      const url = name === 'upstash' ? rest.http : server.url;
      assert.equal(made.client.name, new URL(url).host);
    });

    it('returns the reply of a script, the second time by its SHA-1', async () => {
      const script = "return { 1, 'ä\\r\\n😀', false, { KEYS[1], ARGV[1] }, 4503599627370496 }";
      for (let time = 0; time < 2; time += 1) {
        const reply = (await run(script, ['kéy'], ['ärg'])) as Reply[];
        assert.deepEqual(
          reply.map((item) => (typeof item === 'bigint' ? Number(item) : item)),
          [1, 'ä\r\n😀', null, ['kéy', 'ärg'], 4503599627370496],
        );
      }
      assert.equal(await run('return nil'), null);
      assert.equal(await run("return ''"), '');
    });

    it("reports a refusal of the server as a ReplyError with the server's own words", async () => {
      await store.set('text', 'a');
      const refused = await run("return redis.call('HGET', KEYS[1], 'a')", ['text']).catch((error) => error);
      assert.equal(refused.name, 'ReplyError');
      assert.match(refused.message, /^(WRONGTYPE |ERR .*WRONGTYPE )/);
      const raised = await run("return redis.error_reply('MINE of my own')").catch((error) => error);
      assert.equal(raised.name, 'ReplyError');
      assert.match(raised.message, /^MINE of my own/);
    });

    it('receives messages until it unsubscribes, for each listener', async () => {
      const channel = 'ä:{b},c d';
      const received: string[][] = [[], []];
      const listen = (at: number) => made.client.subscribe?.(channel, (message) => received[at]?.push(message));
      const [first, second] = [await listen(0), await listen(1)];
      const texts = ['a', '', 'ä,😀\t"', randomBytes(2_000).toString('base64')];
      for (const text of texts) await store.publish(channel, text);
      await eventually(5_000, () => received.every(({ length }) => length === texts.length));
      assert.deepEqual(received, [texts, texts]);
      await first?.();
      await eventually(5_000, async () => {
        await store.publish(channel, 'again');
        return received[1]?.includes('again') && !received[0]?.includes('again');
      });
      await second?.();
      await eventually(5_000, async () => (await store.publish(channel, 'nobody')) === 0);
    });
  });
}

describe('tcp', () => {
  it('logs in, chooses its database, and is refused with the wrong password', async () => {
    await using server = await RedisServer.start('--requirepass', 'p@ss word/:#');
    const secret = encodeURIComponent('p@ss word/:#');
    const at = new URL(server.url).host;
    const client = onSockets(`redis://:${secret}@${at}/3`);
    assert.equal(await client.eval("return redis.call('SET', 'a', 1) and 'set'", [], [], 'x'), 'set');
    assert.equal(await server.store.exists('a'), 0);
    await server.store.select(3);
    assert.equal(await server.store.exists('a'), 1);
    client.close();
    const wrong = onSockets(`redis://:other@${at}`);
    const error = await Promise.resolve(wrong.eval('return 1', [], [], 'x')).catch((error) => error);
    assert.equal(error.name, 'ReplyError');
    assert.match(error.message, /^WRONGPASS/);
    assert.ok(!`${error.message}`.includes('other'));
    assert.throws(() => onSockets('http://localhost'), InvalidArgumentError);
  });

  it('parses a URL like the other packages, or refuses it without repeating it', async () => {
    await using server = await RedisServer.start();
    for (const [form, database] of [
      ['', 0],
      ['/', 0],
      ['/3', 3],
      ['?db=4', 4],
      ['/?db=5', 5],
      ['/6\r\n', 6],
      ['\n', 0],
    ] as const) {
      const client = onSockets(`${form === '\n' ? '\uFEFF ' : ''}${server.url.replace('redis', 'valkey')}${form}`);
      await client.eval("return redis.call('SET', KEYS[1], 1) and 1", ['here'], [], 'x');
      await server.store.select(database);
      assert.equal(await server.store.del('here'), 1, form);
      client.close();
    }
    for (const rest of [
      'host/3?db=4',
      'host?db=x',
      'host/a',
      'host?tls=1',
      'host#insecure',
      ':s3/cret@host',
      '%@host',
      ':s3\ncret@host',
      ':s3 cret@host',
      'host:63\t79',
      'host/3"',
      'host\u200B',
    ]) {
      assert.throws(
        () => onSockets(`redis://${rest}`),
        (error) => error instanceof InvalidArgumentError && !error.message.includes('cret') && !('input' in error),
        rest,
      );
    }
  });

  it('closes a silent connection and opens another', async () => {
    await using server = await RedisServer.start();
    let dialled = 0;
    const client = onSockets(server.url, 200, () => {
      dialled += 1;
    });
    assert.equal(Number(await client.eval('return 1', [], [], 'x')), 1);
    server.pause();
    await assert.rejects(Promise.resolve(client.eval('return 1', [], [], 'x')), /no answer within 200 ms/);
    server.resume();
    await eventually(5_000, async () => {
      const answer = await Promise.resolve(client.eval('return 1', [], [], 'x')).catch(() => 0);
      return Number(answer) === 1;
    });
    assert.ok(dialled >= 2);
    client.close();
  });

  it('reopens ended connections and subscribes again', async () => {
    await using server = await RedisServer.start();
    const client = onSockets(server.url);
    const received: string[] = [];
    await client.subscribe?.('news', (message) => received.push(message));
    assert.equal(Number(await client.eval('return 1', [], [], 'x')), 1);
    await server.store.call('CLIENT', 'KILL', 'TYPE', 'pubsub');
    await server.store.call('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes');
    await eventually(5_000, async () => {
      const answer = await Promise.resolve(client.eval('return 1', [], [], 'x')).catch(() => 0);
      return Number(answer) === 1;
    });
    await eventually(5_000, async () => {
      await server.store.publish('news', 'again');
      return received.includes('again');
    });
    client.close();
    await assert.rejects(Promise.resolve(client.eval('return 1', [], [], 'x')), /closed/);
  });
});

describe('upstash', () => {
  const script = 'return redis.call("PUBLISH", KEYS[1], ARGV[1])';

  it('subscribes to a few channels, and refuses more until one is free', async () => {
    await using server = await EmbeddedServer.start('--http', '0');
    const client = upstash({ url: server.http, subscribe: true, maxStreams: 2 });
    const listen = async (channel: string) => client.subscribe?.(channel, () => {});
    const ends = [await listen('a'), await listen('b')];
    await assert.rejects(listen('c'), /enough/);
    await ends.pop()?.();
    ends.push(await listen('c'));
    await assert.rejects(listen('d'), /enough/);
    for (const end of ends) await end?.();
  });

  it('reopens a stream that the server ended', async () => {
    await using server = await EmbeddedServer.start('--http', '0');
    let streams = 0;
    const cut: AbortController[] = [];
    const client = upstash({
      url: server.http,
      subscribe: true,
      fetch: (url, init) => {
        if (!`${url}`.includes('/subscribe/')) return fetch(url, init);
        streams += 1;
        const one = new AbortController();
        cut.push(one);
        return fetch(url, { ...init, signal: AbortSignal.any([one.signal, init?.signal as AbortSignal]) });
      },
    });
    const received: string[] = [];
    const end = await client.subscribe?.('a,b', (message) => received.push(message));
    const say = (text: string) => client.eval(script, ['a,b'], [text], sha1(script));
    await say('1,2');
    await eventually(5_000, () => received.includes('1,2'));
    cut[0]?.abort();
    await eventually(5_000, async () => {
      await say('again');
      return received.includes('again');
    });
    assert.equal(streams, 2);
    await end?.();
  });

  it('reports a wrong token as a refusal, and times out without a reply', async () => {
    const requests: RequestInit[] = [];
    const answering = (status: number, body: unknown) =>
      upstash({
        url: 'https://example.upstash.io',
        token: 'secret',
        timeoutMs: 50,
        fetch: async (_, init) => {
          requests.push(init ?? {});
          if (status > 0) return new Response(JSON.stringify(body), { status });
          // The timer keeps the program alive, as a socket does.
          const socket = setTimeout(() => assert.fail('the request was not given up'), 5_000);
          return new Promise<Response>((_, reject) => {
            init?.signal?.addEventListener('abort', () => {
              clearTimeout(socket);
              reject(new Error('timed out'));
            });
          });
        },
      });
    const failure = async (status: number, body?: unknown) =>
      Promise.resolve(answering(status, body).eval('return 1', [], [], 'x')).catch((error: Error) => error);
    const names = [
      [401, { error: 'Unauthorized' }],
      [400, { error: 'ERR of the server' }],
      [429, { error: 'ERR too many requests' }],
      [502, { error: 'bad gateway' }],
      [503, {}],
      [0],
    ].map(async ([status, body]) => ((await failure(status as number, body)) as Error).name);
    assert.deepEqual(await Promise.all(names), ['ReplyError', 'ReplyError', 'Error', 'Error', 'Error', 'Error']);
    assert.deepEqual(new Headers(requests[0]?.headers).get('authorization'), 'Bearer secret');
  });
});

function sha1(text: string): string {
  return createHash('sha1').update(text).digest('hex');
}

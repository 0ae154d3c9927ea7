// Tests of wrong arguments of adapters and of `connect`: clients of other adapters, closed or unconnected clients, and
// values that are no client. Each is refused at once, with an error that says what to do.

import assert from 'node:assert/strict';
import { mkdtempSync, writeFileSync } from 'node:fs';
import { createServer as createHttpServer } from 'node:http';
import { createServer, connect as dial, type Socket as NodeSocket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, Writable } from 'node:stream';
import { after, before, describe, it } from 'node:test';
import { Redis as Upstash } from '@upstash/redis';
import { Cluster } from 'ioredis';
import { createClient, createClientPool, createCluster, createSentinel } from 'redis';
import { connect, type RedisClient, redlock, SteadlockError, UnavailableError } from 'steadlock-web';
import { deno, type TcpClient, type TcpOptions } from 'steadlock-web/deno';
import { ioredis } from 'steadlock-web/ioredis';
import { nodeRedis } from 'steadlock-web/node-redis';
import { upstash } from 'steadlock-web/upstash';
import { Redis, ROOT } from './package.js';
import { EmbeddedServer, elapsed, eventually, RedisServer, unusedPort } from './server.js';

type Address = { readonly hostname: string; readonly port: number };
type Socket = import('../src/adapters/resp.js').Socket;

/** The module `tcp.ts`, which the package does not export. */
interface Tcp {
  tcp(url: string | URL, open: (address: Address) => Socket, options?: TcpOptions): TcpClient;
}

const { tcp } = (await import(`${ROOT}packages/web/dist/adapters/tcp.js`)) as Tcp;

let server: RedisServer;
let rest: EmbeddedServer;
/** Every kind of client that a program can have. */
let clients: Record<string, unknown>;
const ends: (() => unknown)[] = [];

before(async () => {
  [server, rest] = await Promise.all([RedisServer.start(), EmbeddedServer.start('--http', '0')]);
  const { url } = server;
  const node = { url };
  const [io, lazy, closedIo, closing] = [
    new Redis(url),
    new Redis(url, { lazyConnect: true }),
    new Redis(url, { lazyConnect: true }),
    new Redis(url),
  ];
  const cluster = new Cluster([{ port: 1 }], { lazyConnect: true });
  const nodeClient = await createClient(node).connect();
  const pool = createClientPool(node);
  await pool.connect();
  const closedNode = await createClient(node).connect();
  closedIo.disconnect();
  await closing.quit();
  await eventually(5_000, () => closing.status === 'end' && closedIo.status === 'end');
  closedNode.destroy();
  const closedTcp = onSockets(url);
  closedTcp.close();
  const listening = new Redis(url, { protocol: 2 });
  await listening.subscribe('anything');
  const listeningNode = await createClient({ url, RESP: 2 }).connect();
  await listeningNode.subscribe('anything', () => {});
  const prefixed = new Redis(url, { keyPrefix: 'app:', lazyConnect: true });
  const prefixedCluster = new Cluster([{ port: 1 }], { keyPrefix: 'app:', lazyConnect: true });
  ends.push(
    () => io.disconnect(),
    () => lazy.disconnect(),
    () => cluster.disconnect(),
    () => nodeClient.destroy(),
    () => pool.destroy(),
    () => listening.disconnect(),
    () => listeningNode.destroy(),
    () => prefixed.disconnect(),
    () => prefixedCluster.disconnect(),
  );
  clients = {
    'a Redis of ioredis': io,
    'a Redis of ioredis that connects at its first use': lazy,
    'a Redis of ioredis that was disconnected': closedIo,
    'a Redis of ioredis that has quit': closing,
    'a Cluster of ioredis': cluster,
    'a pipeline of ioredis': io.pipeline(),
    'a client of node-redis': nodeClient,
    'a client of node-redis that is not connected': createClient(node),
    'a client of node-redis that was closed': closedNode,
    'the promise of a client of node-redis': Promise.resolve(nodeClient),
    'a pool of node-redis': pool,
    'a cluster of node-redis': createCluster({ rootNodes: [node] }),
    'sentinels of node-redis': createSentinel({ name: 'mine', sentinelRootNodes: [{ host: 'a', port: 1 }] }),
    'the legacy form of node-redis': nodeClient.legacy(),
    'a client of @upstash/redis': new Upstash({ url: rest.http, token: 'any' }),
    'a client of @upstash/redis that pipelines by itself': new Upstash({
      url: rest.http,
      token: 'any',
      enableAutoPipelining: true,
    }),
    'a proxy of a Redis of ioredis': new Proxy(io, {}),
    'a Redis of ioredis that listens': listening,
    'a Redis of ioredis with a prefix': prefixed,
    'a Cluster of ioredis with a prefix': prefixedCluster,
    'a proxy of a client of node-redis': new Proxy(nodeClient, {}),
    'a client of node-redis that listens': listeningNode,
    'a multi() of node-redis': nodeClient.multi(),
    'a client of redis 4 in legacyMode': { ...CALLBACKS, on() {}, pSubscribe() {}, options: { legacyMode: true } },
    'a client of redis 3': { ...CALLBACKS, on() {}, evalsha() {}, internal_send_command() {} },
    "a client of Deno's redis": { ...CALLBACKS, evalsha() {}, eval() {}, isConnected: true },
    'a client that throws when it is inspected': new Proxy(
      {},
      {
        get() {
          throw new Error('KV_REST_API_URL is missing');
        },
      },
    ),
    'what the adapter of ioredis made': ioredis(io),
    'what tcp made, closed': closedTcp,
    'the class of ioredis': Redis,
    'a URL': url,
    'a URL object': new URL(url),
    nothing: undefined,
    null: null,
    'a number': 6379,
    'an empty object': {},
    'an array': [io],
  };
});

/** The methods of clients that take a callback and return nothing. */
const CALLBACKS = { connect() {}, get() {}, sendCommand() {}, subscribe() {}, unsubscribe() {} };

after(async () => {
  for (const end of ends) await end();
  await Promise.all([server[Symbol.asyncDispose](), rest[Symbol.asyncDispose]()]);
});

function onSockets(url: string | URL) {
  return tcp(url, ({ hostname, port }) => {
    const socket = dial(port, hostname);
    const readable = Readable.toWeb(socket) as ReadableStream<Uint8Array>;
    return { readable, writable: Writable.toWeb(socket) as WritableStream<Uint8Array>, close: () => socket.destroy() };
  });
}

type Given = (client: never) => RedisClient;
const ADAPTERS: Record<string, Given> = {
  ioredis,
  'ioredis, as subscriber': (client) => ioredis(clients['a Redis of ioredis'] as Redis, client),
  nodeRedis,
  'nodeRedis, as subscriber': (client) => nodeRedis(clients['a client of node-redis'] as never, client),
  upstash,
  tcp: onSockets,
  deno,
  connect: (client) => client,
};

/**
 * The valid arguments of each adapter; all others are refused. `nothing` counts as an argument that is left out. The
 * tests skip a valid cluster, because its node does not exist.
 */
const VALID: Record<string, readonly string[]> = {
  ioredis: [
    'a Redis of ioredis',
    'a Redis of ioredis that connects at its first use',
    'a Cluster of ioredis',
    'a proxy of a Redis of ioredis',
  ],
  // A prefix applies to keys, and not to channels.
  'ioredis, as subscriber': [
    'a Redis of ioredis that connects at its first use',
    'a Cluster of ioredis',
    'a proxy of a Redis of ioredis',
    'a Redis of ioredis that listens',
    'a Redis of ioredis with a prefix',
    'a Cluster of ioredis with a prefix',
    'nothing',
  ],
  nodeRedis: ['a client of node-redis', 'a pool of node-redis', 'a proxy of a client of node-redis'],
  'nodeRedis, as subscriber': ['a proxy of a client of node-redis', 'a client of node-redis that listens', 'nothing'],
  upstash: [],
  tcp: ['a URL', 'a URL object'],
  deno: [],
  connect: ['what the adapter of ioredis made'],
};

const NAMES = [
  'a Redis of ioredis',
  'a Redis of ioredis that connects at its first use',
  'a Redis of ioredis that was disconnected',
  'a Redis of ioredis that has quit',
  'a Cluster of ioredis',
  'a pipeline of ioredis',
  'a client of node-redis',
  'a client of node-redis that is not connected',
  'a client of node-redis that was closed',
  'the promise of a client of node-redis',
  'a pool of node-redis',
  'a cluster of node-redis',
  'sentinels of node-redis',
  'the legacy form of node-redis',
  'a client of @upstash/redis',
  'a client of @upstash/redis that pipelines by itself',
  'a proxy of a Redis of ioredis',
  'a Redis of ioredis that listens',
  'a Redis of ioredis with a prefix',
  'a Cluster of ioredis with a prefix',
  'a proxy of a client of node-redis',
  'a client of node-redis that listens',
  'a multi() of node-redis',
  'a client of redis 4 in legacyMode',
  'a client of redis 3',
  "a client of Deno's redis",
  'a client that throws when it is inspected',
  'what the adapter of ioredis made',
  'what tcp made, closed',
  'the class of ioredis',
  'a URL',
  'a URL object',
  'nothing',
  'null',
  'a number',
  'an empty object',
  'an array',
];

/** Connects with a client. Returns the result, and checks that it came soon. */
async function connectWith(adapter: Given, client: unknown): Promise<unknown> {
  const started = performance.now();
  try {
    await (await connect(adapter(client as never), { connectTimeoutMs: 30_000 })).close();
    return 'connected';
  } catch (error) {
    assert.ok(performance.now() - started < 10_000, `${error}`);
    return error;
  }
}

describe('each client, given', () => {
  it('is in the table', () => assert.deepEqual(Object.keys(clients), NAMES));

  for (const [adapter, given] of Object.entries(ADAPTERS)) {
    for (const name of NAMES) {
      const isValid = VALID[adapter]?.includes(name);
      if (isValid && name === 'a Cluster of ioredis') continue;
      it(`to ${adapter}: ${name} is ${isValid ? 'accepted' : 'refused at once'}`, async () => {
        const end = await connectWith(given, clients[name]);
        if (isValid) return assert.equal(end, 'connected');
        assert.ok(end instanceof SteadlockError, `${end}`);
        assert.match(end.kind, /^(InvalidArgument|Misconfigured)$/, `${end}`);
        assert.equal(end.operation, 'connect');
        assert.equal(end.retryable, false);
        assert.doesNotMatch(end.message, /undefined \(|Cannot read|is not a function|\[object/);
      });
    }
  }

  it('is refused with an error that says what to use', async () => {
    for (const [adapter, name, advice] of [
      ['connect', 'a Redis of ioredis', /`ioredis` of steadlock-web\/ioredis/],
      ['connect', 'a client of node-redis', /`nodeRedis` of steadlock-web\/node-redis/],
      ['connect', 'a client of @upstash/redis', /`upstash` of steadlock-web\/upstash/],
      ['connect', 'a URL', /steadlock-web\/deno/],
      ['ioredis', 'a client of node-redis', /`nodeRedis`/],
      ['nodeRedis', 'a Redis of ioredis', /`ioredis`/],
      ['nodeRedis', 'a cluster of node-redis', /cluster; use ioredis/],
      ['nodeRedis', 'sentinels of node-redis', /sentinels; use ioredis/],
      ['nodeRedis', 'the promise of a client of node-redis', /await it/],
      ['nodeRedis', 'a client of node-redis that is not connected', /await client\.connect\(\)/],
      ['ioredis', 'a Redis of ioredis that has quit', /closed/],
      ['ioredis', 'a Redis of ioredis that listens', /redis\.duplicate\(\)/],
      ['ioredis', 'a Redis of ioredis with a prefix', /redis\.duplicate\(\{ keyPrefix: '' \}\)/],
      ['ioredis', 'a Cluster of ioredis with a prefix', /a Cluster without it/],
      ['ioredis', 'a pipeline of ioredis', /not a pipeline; give the client itself/],
      ['nodeRedis', 'a multi() of node-redis', /not a pipeline; give the client itself/],
      ['nodeRedis', 'a client of redis 4 in legacyMode', /make it without/],
      ['nodeRedis', 'a client of redis 3', /use a newer one/],
      ['nodeRedis, as subscriber', 'a pool of node-redis', /a pool, which cannot listen/],
      ['connect', "a client of Deno's redis", /`deno` of steadlock-web\/deno/],
      ['nodeRedis', "a client of Deno's redis", /`deno` of steadlock-web\/deno/],
      ['connect', 'a client that throws when it is inspected', /KV_REST_API_URL is missing/],
      ['upstash', 'a client of @upstash/redis', /its url and token/],
      ['upstash', 'nothing', /url/],
      ['upstash', 'an empty object', /UPSTASH_REDIS_REST_URL/],
    ] as const) {
      assert.match(`${await connectWith(ADAPTERS[adapter] as Given, clients[name])}`, advice, `${adapter}: ${name}`);
    }
    await assert.rejects(redlock([clients['a Redis of ioredis'] as never]), { kind: 'InvalidArgument' });
  });
});

describe('options of adapters', () => {
  it('are checked, and no message repeats a secret', () => {
    const url = 'https://example.upstash.io';
    for (const options of [
      { url: 1 },
      { url: '' },
      { url: 'example.upstash.io' },
      { url: `"${url}"` },
      { url: 'rediss://default:secret@example.upstash.io:6379' },
      { url: 'https://user:secret@example.upstash.io' },
      { url: 'ftp://example' },
      { url, token: 1 },
      { url, token: null },
      { url, subscribe: 'yes' },
      { url, maxStreams: 0 },
      { url, maxStreams: '3' },
      { url, timeoutMs: '1000' },
      { url, timeoutMs: 0 },
      { url, timeoutMs: Number.NaN },
      { url, fetch: true },
      { url, tokn: 'secret' },
    ]) {
      assert.throws(
        () => upstash(options as never),
        (error) => error instanceof SteadlockError && error.kind === 'InvalidArgument' && !/secret/.test(error.message),
        JSON.stringify(options),
      );
    }
    for (const options of [1, null, { timeoutMs: '1' }, { timeoutMs: -1 }, { timeout: 1 }]) {
      assert.throws(() => tcp('redis://host', (() => {}) as never, options as never), { kind: 'InvalidArgument' });
    }
    assert.equal(upstash({ url: new URL(`${url}/`) }).name, 'example.upstash.io');
  });

  it('include a missing or wrong token', async () => {
    await using server = await EmbeddedServer.start('--http', '0', '--http-token-file', tokenFile());
    for (const token of [undefined, '', 'other']) {
      const started = performance.now();
      const refused = connect(upstash({ url: server.http, token }), { connectTimeoutMs: 30_000 });
      await assert.rejects(refused, { kind: 'Misconfigured' });
      assert.ok(performance.now() - started < 10_000);
    }
    await (await connect(upstash({ url: server.http, token: 'right' }))).close();
  });
});

describe('a custom client', () => {
  it('that converts texts to numbers is refused by connect', async () => {
    for (const automaticDeserialization of [true, false]) {
      const redis = new Upstash({ url: rest.http, token: 'any', automaticDeserialization });
      const own: RedisClient = { eval: (script, keys, args) => redis.eval(script, [...keys], [...args]) };
      if (automaticDeserialization) {
        await assert.rejects(connect(own), { kind: 'Misconfigured', message: /automaticDeserialization: false/ });
      } else {
        await using client = await connect(own);
        await (await client.lock('own').lock()).release();
      }
    }
  });
});

describe('an address without the REST API', () => {
  it('is reported, whatever it answers', async () => {
    const page = createHttpServer((_, response) => response.end('<html></html>'));
    await new Promise<void>((resolve) => page.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(page.address() as { port: number }).port}`;
    const error = await connect(upstash({ url }), { connectTimeoutMs: 3_000 }).catch((error) => error);
    assert.ok(error instanceof UnavailableError);
    assert.match(error.message, /answered with 200 and no JSON; is it that of the REST API\?/);
    page.closeAllConnections();
    page.close();
  });
});

describe('a server that is down', () => {
  it('is reported after connectTimeoutMs', async () => {
    const failing: RedisClient = { eval: () => Promise.reject(new Error('down')) };
    const timesMs: number[] = [];
    // A busy machine can be late once.
    while (timesMs.length < 3 && !timesMs.some((tookMs) => tookMs < 2_500)) {
      const refused = connect(failing, { connectTimeoutMs: 1_600 });
      timesMs.push(await elapsed(refused));
      await assert.rejects(refused, UnavailableError);
    }
    // The pauses between attempts grow, but the last attempt is at the deadline, not after it. Otherwise it would be
    // after 2,550 ms each time.
    const shortestMs = Math.min(...timesMs);
    assert.ok(shortestMs >= 1_590 && shortestMs < 2_500, `${timesMs} ms`);
  });

  it('is reported with the message of the system by each adapter', async () => {
    const port = await unusedPort();
    const url = `redis://127.0.0.1:${port}`;
    const io = new Redis(url);
    const node = createClient({ url });
    for (const client of [io, node]) client.on('error', () => {});
    void node.connect().catch(() => {});
    const refused = new RegExp(`ECONNREFUSED 127\\.0\\.0\\.1:${port}`);
    const all = [upstash({ url: `http://127.0.0.1:${port}` }), onSockets(url), ioredis(io), nodeRedis(node)];
    const outcomes = all.map((client) => connect(client, { connectTimeoutMs: 3_000 }).catch((error: unknown) => error));
    for (const error of await Promise.all(outcomes)) {
      assert.ok(error instanceof UnavailableError, `${error}`);
      assert.match(error.message, refused);
      assert.match(`${error.cause}`, refused);
    }
    io.disconnect();
    node.destroy();
  });

  it('is reported if it closes each connection, like a load balancer without servers', async () => {
    const sockets = new Set<NodeSocket>();
    const balancer = createServer((socket) => {
      sockets.add(socket);
      socket.on('error', () => {}).destroy();
    });
    await new Promise<void>((resolve) => balancer.listen(0, '127.0.0.1', resolve));
    const url = `http://127.0.0.1:${(balancer.address() as { port: number }).port}`;
    const error = await connect(upstash({ url }), { connectTimeoutMs: 3_000 }).catch((error) => error);
    assert.ok(error instanceof UnavailableError);
    assert.match(error.message, /fetch failed: ./);
    balancer.close();
  });

  it('is reported with each cause once, whatever was thrown', async () => {
    const deep = new Error('first', { cause: new Error('second', { cause: new Error('first and second') }) });
    const circle = new Error('round');
    circle.cause = circle;
    const several = new AggregateError([new Error('one way'), new Error('other way')], '');
    for (const [thrown, text] of [
      [deep, /first: second: first and second/],
      [circle, /round/],
      [several, /one way: other way/],
      [new Error('', { cause: 'a text' }), /a text/],
    ] as const) {
      const client = { eval: () => Promise.reject(thrown) };
      const error = await connect(client, { connectTimeoutMs: 100 }).catch((error) => error);
      assert.match(error.message, text);
      assert.doesNotMatch(error.message, /round.*round/);
    }
  });
});

function tokenFile(): string {
  const file = join(mkdtempSync(join(tmpdir(), 'steadlock-token-')), 'token');
  writeFileSync(file, 'right');
  return file;
}

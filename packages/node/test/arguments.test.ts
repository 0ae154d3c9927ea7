// Tests of bad input: each one gives a typed error, and writes nothing.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { runInNewContext } from 'node:vm';
import { type Client, connect, InvalidArgumentError, MisconfiguredError, redlock, UnavailableError } from 'steadlock';
import { RedisServer } from './server.js';

describe('invalid input', () => {
  let server: RedisServer;
  let client: Client;

  before(async () => {
    server = await RedisServer.start();
    client = await connect(server.url);
  });

  after(async () => {
    const written = await server.keys();
    await client.close();
    await server[Symbol.asyncDispose]();
    assert.deepEqual(written, [], 'something was written');
  });

  for (const [what, name] of [
    ['empty', ''],
    ['of 513 bytes', 'n'.repeat(513)],
    ['of more than 512 bytes in fewer characters', 'ü'.repeat(257)],
    ['with NUL', 'a\0b'],
    ['with odd braces', 'a{b'],
    ['with empty braces', '{}a'],
    ['that is reserved', 'steadlock:x'],
    ['that is reserved for Redisson', 'redisson_lock__channel:{x}'],
  ] as const) {
    it(`a name ${what} is refused`, async () => {
      await assert.rejects(client.lock(name).lock(), InvalidArgumentError);
      await assert.rejects(client.lock(name).tryLock(), InvalidArgumentError);
      await assert.rejects(client.lock(name).isLocked(), InvalidArgumentError);
      await assert.rejects(
        client.using(name, () => assert.fail('it ran')),
        InvalidArgumentError,
      );
    });
  }

  it('a name with a lone surrogate is refused', () => {
    for (const name of ['\ud800', 'a\udc00b', 7, null, undefined, {}, Symbol('s')]) {
      assert.throws(() => client.lock(name as string), InvalidArgumentError);
    }
    assert.equal(client.lock('🔒').name, '🔒');
  });

  it('other objects in place of options are refused', async () => {
    await using local = await connect('memory://');
    const lease = await local.lock('held').lock();
    const { signal } = new AbortController();
    const misplaced: [unknown, string][] = [
      [signal, 'AbortSignal'],
      [lease, 'a lock or lease'],
      [local.lock('other'), 'a lock or lease'],
      [Promise.resolve({}), 'Promise'],
      [new URL('memory://'), 'URL'],
      [new Map([['waitMs', 0]]), 'Map'],
      [new Date(), 'Date'],
      [[], 'an array'],
    ];
    for (const [value, shown] of misplaced) {
      const options = value as object;
      const message = `the options must be an object, not ${shown}`;
      const refused = (error: unknown) => error instanceof InvalidArgumentError && error.message.includes(message);
      const lock = local.lock('free');
      for (const call of [
        () => lock.lock(options),
        () => lock.tryLock(options),
        () => local.semaphore('seats', 2).acquire(1, options),
        () => local.using('free', options, () => assert.fail('it ran')),
        () => local.using(lock, options, () => assert.fail('it ran')),
        () => connect('memory://', options),
        () => redlock(['memory://a', 'memory://b', 'memory://c'], options),
        async () => local.lock('free', options),
        async () => local.multiLock([lock], options),
      ]) {
        await assert.rejects(call, refused, `${shown}: ${call}`);
      }
    }
    const addressMap = new URL('memory://') as unknown as Record<string, string>;
    await assert.rejects(connect('memory://', { addressMap }), InvalidArgumentError);
    // Options objects of a class, of another realm, and without a prototype.
    class Given {
      get waitMs() {
        return 0;
      }
    }
    for (const options of [new Given(), runInNewContext('({ waitMs: 0 })'), Object.create(null)]) {
      await (await local.lock('free').lock(options)).release();
    }
    await lease.release();
  });

  it('messages use the names of options and methods in Node', async () => {
    const messageOf = async (failing: Promise<unknown>) => {
      const error = await failing.then(
        () => assert.fail('it went well'),
        (failed: Error) => failed,
      );
      assert.doesNotMatch(error.message.replaceAll(/"[^"]*"/g, ''), /[a-z]_[a-z]/, error.message);
      return error.message;
    };
    const { url } = server;
    assert.match(
      await messageOf(client.lock('max_hold').lock({ maxHoldMs: 99 })),
      /"max_hold": maxHoldMs is below 100 ms/,
    );
    assert.match(await messageOf(connect(url, { addressMap: { a: 'b' } })), /addressMap is given but/);
    assert.match(
      await messageOf(connect(url, { clientInfo: false, clientLabel: 'x' })),
      /clientLabel is given and clientInfo/,
    );
    assert.match(await messageOf(connect(`${url}#insecure`)), /tlsCaFile/);
    assert.match(await messageOf(connect(url, { tlsKeyFile: '/none' })), /tls[A-Z]/);
    assert.match(await messageOf(client.setLimit('s', 0)), /^setLimit/);
  });

  it('a URL can be a URL object', async () => {
    await using one = await connect(new URL(server.url));
    assert.equal(await one.lock('url').isLocked(), false);
    await using several = await redlock([new URL('memory://p1'), 'memory://p2', new URL('memory://p3')]);
    await (await several.mutex('url').lock()).release();
  });

  it('other values in place of the URL are refused with advice', async () => {
    const given = (url: unknown) => connect(url as string);
    await assert.rejects(given(server.store), (error) => {
      assert.ok(error instanceof InvalidArgumentError);
      assert.match(error.message, /not a Redis client; give the URL that the client connects to.*steadlock-web/);
      return true;
    });
    // An object like a client of node-redis.
    await assert.rejects(given({ duplicate() {}, sendCommand() {} }), /not a Redis client/);
    await assert.rejects(given({ url: new URL(server.url) }), /not an object; call connect\(url, options\)/);
    await assert.rejects(given({ host: 'localhost' }), /the URL must be a string or a URL, not object/);
    await assert.rejects(redlock([server.store, server.url, server.url] as never), /each of the URLs.*a Redis client/);
  });

  it('a lease that is 0, negative, not a number, below 100 ms or above 24 h is refused', async () => {
    for (const leaseMs of [0, -1, Number.NaN, 99, 86_400_001, Number.POSITIVE_INFINITY, -0, 1e300]) {
      await assert.rejects(client.lock('lease').lock({ leaseMs }), InvalidArgumentError, `${leaseMs}`);
      await assert.rejects(client.lock('lease', { leaseMs }).tryLock(), InvalidArgumentError, `${leaseMs}`);
      await assert.rejects(client.lock('lease').lock({ leaseMs, renew: true }), InvalidArgumentError, `${leaseMs}`);
      await assert.rejects(connect(server.url, { leaseMs }), InvalidArgumentError, `${leaseMs}`);
    }
    for (const maxHoldMs of [0, -1, Number.NaN, 99]) {
      await assert.rejects(client.lock('hold').lock({ maxHoldMs }), InvalidArgumentError, `${maxHoldMs}`);
    }
    for (const waitMs of [-1, Number.NaN, Number.NEGATIVE_INFINITY]) {
      await assert.rejects(client.lock('wait').lock({ waitMs }), InvalidArgumentError, `${waitMs}`);
    }
  });

  it('options of the wrong type are refused', async () => {
    const lock = client.lock('types');
    for (const value of ['100', null, true, {}, 100n]) {
      for (const option of ['waitMs', 'leaseMs', 'maxHoldMs']) {
        await assert.rejects(lock.lock({ [option]: value }), InvalidArgumentError, `${option} ${value}`);
        assert.throws(() => client.lock('types', { [option]: value }), InvalidArgumentError);
      }
      for (const option of ['leaseMs', 'commandTimeoutMs', 'connectTimeoutMs', 'retryIntervalMs']) {
        await assert.rejects(connect(server.url, { [option]: value }), InvalidArgumentError, `${option} ${value}`);
      }
    }
    await assert.rejects(lock.lock(5 as never), InvalidArgumentError);
    await assert.rejects(lock.lock(null as never), InvalidArgumentError);
    await assert.rejects(lock.tryLock({ signal: 5 as never }), InvalidArgumentError);
    await assert.rejects(lock.lock({ within: {} as never }), InvalidArgumentError);
    await assert.rejects(lock.unlock({} as never), InvalidArgumentError);
    assert.throws(() => client.lock('types', { fencing: 1 as never }), InvalidArgumentError);
    await assert.rejects(connect(5 as never), InvalidArgumentError);
    await assert.rejects(connect(null as never), InvalidArgumentError);
    await assert.rejects(connect(server.url, { keyPrefix: 5 as never }), InvalidArgumentError);
    await assert.rejects(connect(server.url, { keyPrefix: 'a\ud800' }), InvalidArgumentError);
    await assert.rejects(connect(server.url, { retryIntervalMs: [5] as never }), InvalidArgumentError);
  });

  it('an unknown option is refused with a suggestion', async () => {
    for (const [given, meant] of [
      [{ wait: 50 }, /there is no option wait; did you mean waitMs\?/],
      [{ waitMS: 50 }, /there is no option waitMS; did you mean waitMs\?/],
      [{ timeout: 50 }, /there is no option timeout; there are waitMs, leaseMs, /],
    ] as const) {
      await assert.rejects(client.lock('unknown').lock(given as never), meant);
      await assert.rejects(client.lock('unknown').tryLock(given as never), InvalidArgumentError);
      await assert.rejects(client.semaphore('unknown', 1).acquire(1, given as never), InvalidArgumentError);
      await assert.rejects(
        client.using('unknown', given as never, () => assert.fail('it ran')),
        InvalidArgumentError,
      );
      assert.throws(() => client.lock('unknown', given as never), InvalidArgumentError);
    }
    await assert.rejects(
      connect(server.url, { lease: 5 } as never),
      /there is no option lease; did you mean leaseMs\?/,
    );
    await assert.rejects(
      connect(server.url, { caFile: 'a' } as never),
      /there is no option caFile; there are leaseMs, /,
    );
    await assert.rejects(redlock([server.url], { tls: {} } as never), /did you mean tlsCaFile\?/);
  });

  it('an option of another call is refused', async () => {
    const { signal } = new AbortController();
    assert.throws(() => client.lock('place', { signal } as never), /there is no option signal/);
    assert.throws(() => client.lock('place', { within: {} } as never), /there is no option within/);
    await assert.rejects(client.lock('place').lock({ fencing: false } as never), /there is no option fencing/);
    await client.using('memory', { signal, fencing: false }, ({ token }) => assert.equal(token, null));
  });

  it('the error for a refused argument has the operation', async () => {
    // A grant writes a token to its server, and nothing must be written to the test's server.
    await using elsewhere = await connect('memory://');
    const refused: [string, () => unknown][] = [
      ['connect', () => connect(server.url, { leaseMs: '100' as never })],
      ['connect', () => redlock('redis://a' as never)],
      ['acquire', () => client.lock(5 as never)],
      ['acquire', () => client.lock('told').lock({ waitMs: '100' as never })],
      ['acquire', () => client.using('told', undefined as never)],
      ['acquire', () => client.multiLock([{} as never])],
      ['acquire', () => client.multiLock({} as never)],
      ['acquire', () => client.multiLock(undefined as never)],
      ['release', () => client.forceRelease({} as never)],
      ['set_limit', () => client.setLimit('told', '5' as never)],
      ['set_limit', () => client.setLimit(5 as never, 5)],
      ['extend', () => elsewhere.using('told', (lease) => lease.extend('100' as never))],
    ];
    for (const [operation, call] of refused) {
      await assert.rejects(async () => call(), { name: 'InvalidArgumentError', operation });
    }
  });

  it('a malformed or missing URL is refused', async () => {
    for (const url of ['', 'nonsense', 'redis://', 'redis://host:notaport', 'redis://h:1/#insecure', 'http://x']) {
      const error = await connect(url).catch((error) => error);
      assert.ok(error instanceof InvalidArgumentError || error instanceof MisconfiguredError, `${url}: ${error}`);
    }
    const before = process.env.STEADLOCK_URL;
    delete process.env.STEADLOCK_URL;
    await assert.rejects(connect(), MisconfiguredError);
    process.env.STEADLOCK_URL = server.url;
    await (await connect()).close();
    if (before === undefined) delete process.env.STEADLOCK_URL;
    else process.env.STEADLOCK_URL = before;
  });

  it('a refused connection is unavailable', async () => {
    const stopped = await RedisServer.start();
    await stopped[Symbol.asyncDispose]();
    const error = await connect(stopped.url, { connectTimeoutMs: 500 }).catch((error) => error);
    assert.ok(error instanceof UnavailableError, `${error}`);
    assert.ok(error.node?.includes(new URL(stopped.url).port) && error.retryable, `${error}`);
    assert.match(error.cause as string, /refused/);
    assert.match(error.message, /is the server running/);
    assert.doesNotMatch(error.cause as string, /is the server running/);
  });

  it('an error without a cause has no property `cause`', async () => {
    const error = await connect('nonsense').catch((error) => error);
    assert.ok(error instanceof MisconfiguredError || error instanceof InvalidArgumentError, `${error}`);
    assert.ok(!('cause' in error), `${error}`);
  });

  it('a wrong password is reported, and the error does not contain it', async () => {
    await using guarded = await RedisServer.start('--requirepass', 'the-right-one');
    const url = guarded.url.replace('//', '//:hunter2-wrong@');
    const error = await connect(url, { connectTimeoutMs: 2_000 }).catch((error) => error);
    assert.ok(error instanceof MisconfiguredError, `${error}`);
    assert.doesNotMatch(`${error.stack} ${JSON.stringify(error)}`, /hunter2/);
    await (await connect(guarded.url.replace('//', '//:the-right-one@'))).close();
  });

  it('a key of the wrong type is reported', async () => {
    await server.store.set('string', 'x');
    await assert.rejects(client.lock('string').lock({ waitMs: 100 }), MisconfiguredError);
    assert.equal(await server.store.get('string'), 'x');
    await server.store.del('string');
  });

  it('a corrupt fencing token is reported, and nothing is written', async () => {
    await server.store.set('steadlock:{corrupt}:token', 'soup');
    await assert.rejects(client.lock('corrupt').lock({ waitMs: 100 }), MisconfiguredError);
    assert.equal(await server.store.exists('corrupt'), 0);
    await server.store.del('steadlock:{corrupt}:token');
  });
});

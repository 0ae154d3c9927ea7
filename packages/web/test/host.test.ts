// Tests of the differences from the Node package: leases that are fixed by default, the remaining time of an
// invocation, and a Redis client of the host that fails in many ways.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { after, before, describe, it } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import {
  type Client,
  type ConnectOptions,
  connect,
  InvalidArgumentError,
  LockTimeoutError,
  MisconfiguredError,
  type Observation,
  type RedisClient,
  ReplyError,
  redlock,
  UnavailableError,
} from 'steadlock-web';
import { ioredis } from 'steadlock-web/ioredis';
import { Redis, ROOT } from './package.js';
import { elapsed, eventually, RedisServer } from './server.js';

let server: RedisServer;
let redis: Redis;
let subscriber: Redis;
let names = 0;

before(async () => {
  server = await RedisServer.start();
  redis = new Redis(server.url);
  subscriber = new Redis(server.url);
});

after(async () => {
  redis.disconnect();
  subscriber.disconnect();
  await server[Symbol.asyncDispose]();
});

/** Returns a new name. */
function fresh(): string {
  names += 1;
  return `host-${names}`;
}

/** Opens a client; `around` can replace calls of its Redis client. */
async function open(around: Partial<RedisClient> = {}, options?: ConnectOptions): Promise<Client> {
  return connect({ ...ioredis(redis, subscriber), ...around }, options);
}

const run: RedisClient['eval'] = (...call) => ioredis(redis).eval(...call);

describe('leases', () => {
  it('are fixed by default', async () => {
    await using client = await open({}, { leaseMs: 300 });
    const lease = await client.lock(fresh()).lock();
    await once(lease.signal, 'abort');
    assert.equal(lease.lostReason, 'expired');
  });

  it('expire while the machine sleeps', async (test) => {
    await using client = await open({}, { leaseMs: 60_000 });
    const lease = await client.lock(fresh()).lock();
    assert.ok(lease.isValid);
    const now = Date.now;
    test.mock.method(Date, 'now', () => now() + 120_000);
    assert.equal(lease.isValid, false);
    assert.equal(lease.remainingMs, 0);
    await once(lease.signal, 'abort');
    assert.equal(lease.lostReason, 'expired');
  });

  describe('are renewed', { concurrency: 4 }, () => {
    for (const [who, options, lock, call] of [
      ['the client', { renew: true }, {}, {}],
      ['the lock', {}, { renew: true }, {}],
      ['the call', {}, {}, { renew: true }],
      ['the call, with a lease of its own', {}, {}, { renew: true, leaseMs: 3_000 }],
    ] as const) {
      it(`where ${who} says so`, async () => {
        await using client = await open({}, { leaseMs: 3_000, ...options });
        const name = fresh();
        const lease = await client.lock(name, lock).lock(call);
        const until = performance.now() + 4_000;
        while (performance.now() < until) {
          assert.ok(lease.isValid, `${lease.lostReason}`);
          await sleep(20);
        }
        assert.equal(await lease.release(), 'released');
      });
    }
  });

  it('and waits end before the invocation does', async () => {
    await using client = await open();
    const lock = client.lock(fresh());
    const atOnce = await lock.lock({ remainingMs: () => 20_000, waitMs: 0 });
    assert.ok(atOnce.remainingMs <= 20_000 && atOnce.remainingMs > 17_000, `${atOnce.remainingMs}`);
    const started = performance.now();
    await assert.rejects(lock.lock({ remainingMs: 4_000 }), LockTimeoutError);
    const waited = performance.now() - started;
    assert.ok(waited >= 1_995 && waited < 3_800, `${waited}`);
    await atOnce.release();
    // Half of the remaining time is reserved for the wait, so the lease gets the other half.
    const granted = await lock.lock({ remainingMs: 2_000, renew: true });
    assert.ok(granted.remainingMs <= 1_000, `${granted.remainingMs}`);
    await once(granted.signal, 'abort');
    assert.equal(granted.lostReason, 'max_hold');
    for (const remainingMs of [199, -1, Number.NaN, '500' as never, () => 10]) {
      await assert.rejects(lock.lock({ remainingMs }), InvalidArgumentError);
    }
  });
});

describe('connecting', () => {
  it('reports a refusal by the server', async () => {
    const refusing = { eval: () => Promise.reject(new ReplyError('NOAUTH Authentication required.')) };
    const error = await connect({ name: 'shop:6379', ...refusing }).catch((error) => error);
    assert.ok(error instanceof MisconfiguredError, `${error}`);
    assert.match(error.message, /NOAUTH/);
    assert.equal(error.node, 'shop:6379');
  });

  it('times out after the connect timeout, whatever the client does', async () => {
    for (const run of [
      () => Promise.reject(new Error('ECONNREFUSED')),
      () => new Promise<never>(() => {}),
      () => {
        throw new Error('thrown');
      },
    ]) {
      const started = performance.now();
      const error = await connect({ eval: run }, { connectTimeoutMs: 200 }).catch((error) => error);
      assert.ok(error instanceof UnavailableError, `${error}`);
      // Without the option, the limit is 5 s.
      assert.ok(performance.now() - started < 4_500);
    }
  });

  it('refuses values that are not clients, and options of other packages', async () => {
    for (const wrong of [undefined, null, 'redis://localhost', {}, { eval: 1 }, { eval: run, subscribe: true }]) {
      await assert.rejects(connect(wrong as never), InvalidArgumentError);
    }
    await assert.rejects(connect({ eval: run }, { tlsCaFile: '/ca.pem' } as never), InvalidArgumentError);
    await assert.rejects(connect({ eval: run }, { leaseMs: 10 }), InvalidArgumentError);
    await assert.rejects(redlock([{ eval: run }, { eval: run }]), InvalidArgumentError);
  });

  it('makes no server call before the first use if it is lazy', async () => {
    let calls = 0;
    const counted: RedisClient['eval'] = (...call) => {
      calls += 1;
      return run(...call);
    };
    await using client = await open({ eval: counted }, { lazy: true });
    assert.equal(calls, 0);
    await (await client.lock(fresh()).lock()).release();
    assert.ok(calls >= 2);
  });
});

describe('a client that fails', () => {
  it('with an unknown outcome: a lock that was granted is released', async () => {
    const name = fresh();
    let isCut = false;
    const cut: RedisClient['eval'] = async (...call) => {
      const answer = await run(...call);
      if (isCut && call[1].includes(name)) throw new Error('the connection was lost');
      return answer;
    };
    await using client = await open({ eval: cut });
    isCut = true;
    await assert.rejects(client.lock(name).lock({ waitMs: 300 }), UnavailableError);
    isCut = false;
    await eventually(5_000, async () => (await redis.exists(name)) === 0);
  });

  it('and answers late: the call has ended, and its grant is released', async () => {
    const name = fresh();
    let late = false;
    const slow: RedisClient['eval'] = async (...call) => {
      const answer = await run(...call);
      if (late) await sleep(400);
      return answer;
    };
    await using client = await open({ eval: slow }, { commandTimeoutMs: 100 });
    late = true;
    await assert.rejects(client.lock(name).lock({ waitMs: 200 }), UnavailableError);
    late = false;
    await eventually(5_000, async () => (await redis.exists(name)) === 0);
  });

  it('and throws any value: the call rejects, and the client works', async () => {
    let thrown: unknown;
    const throwing: RedisClient['eval'] = (...call) => {
      if (thrown === undefined) return run(...call);
      throw thrown;
    };
    await using client = await open({ eval: throwing });
    const odd = Object.assign(new Error(), { message: { code: 1 } as never });
    for (thrown of [odd, Object.create(null), 'a text', null, 0]) {
      await assert.rejects(client.lock(fresh()).lock({ waitMs: 50 }), UnavailableError);
    }
    thrown = undefined;
    await (await client.lock(fresh()).lock()).release();
    const guessed = client.lock(fresh()) as unknown as { acquire?: unknown };
    assert.equal(guessed.acquire, undefined, 'an internal member has no public name');
  });

  it('and reorders calls: abandoned waiters leave the queue and hold no lock', async () => {
    let isNextLate = false;
    let abandon: (() => void) | undefined;
    let ran = 0;
    const late: RedisClient['eval'] = async (...call) => {
      if (isNextLate) {
        isNextLate = false;
        await new Promise<void>((resolve) => {
          abandon = resolve;
        });
      }
      const reply = await run(...call);
      ran += 1;
      return reply;
    };
    await using client = await open({ eval: late });
    await using other = await open();
    for (const kind of ['fairLock', 'lock', 'mutex'] as const) {
      const name = fresh();
      const held = kind === 'fairLock' ? await other[kind](name).lock() : undefined;
      const controller = new AbortController();
      [isNextLate, abandon, ran] = [true, undefined, 0];
      const aborted = client[kind](name).lock({ signal: controller.signal });
      await eventually(5_000, () => abandon !== undefined);
      controller.abort();
      await assert.rejects(aborted);
      await eventually(5_000, () => ran === 1);
      (abandon as unknown as () => void)();
      await eventually(5_000, () => ran >= 2);
      const waiting = other[kind](name).lock({ waitMs: 10_000 });
      await held?.release();
      // If the aborted request were still in the queue, the server would skip it only after 3 s.
      const tookMs = await elapsed(waiting);
      assert.ok(tookMs < 2_000, `${kind}: ${tookMs} ms`);
      await (await waiting).release();
    }
  });

  it('and returns an invalid reply: the call rejects without a lease', async () => {
    const cyclic: unknown[] = [];
    cyclic.push(cyclic);
    for (const wrong of [{}, 1.5, () => 1, Symbol('reply'), [['a', {}]], true, cyclic] as never[]) {
      let isWrong = false;
      const strange: RedisClient['eval'] = (...call) => (isWrong ? wrong : run(...call));
      await using client = await open({ eval: strange });
      isWrong = true;
      await assert.rejects(client.lock(fresh()).lock({ waitMs: 100 }), (error: Error) => !(error instanceof TypeError));
      isWrong = false;
    }
  });

  it('and cannot subscribe: waiters poll until it can', async () => {
    const name = fresh();
    let attempts = 0;
    const listens = ioredis(redis, subscriber).subscribe as NonNullable<RedisClient['subscribe']>;
    await using client = await open(
      {
        subscribe: (...wanted) => {
          attempts += 1;
          if (attempts === 1) throw new Error('no channels today');
          return listens(...wanted);
        },
      },
      { retryIntervalMs: [5_000, 5_000] },
    );
    await using other = await open();
    const held = await other.lock(name).lock();
    const waiting = client.lock(name).lock({ waitMs: 20_000 });
    await eventually(5_000, () => attempts === 2);
    await eventually(
      5_000,
      async () => ((await redis.pubsub('NUMSUB', `redisson_lock__channel:{${name}}`))[1] as number) > 0,
    );
    const started = performance.now();
    await held.release();
    await (await waiting).release();
    assert.ok(performance.now() - started < 2_000, 'the message was not received');
  });

  it('and its server comes back: renewed leases stay valid', async () => {
    const name = fresh();
    let isDown = false;
    const flaky: RedisClient['eval'] = (...call) => (isDown ? Promise.reject(new Error('down')) : run(...call));
    await using client = await open({ eval: flaky }, { leaseMs: 4_500, renew: true });
    const observed: Observation[] = [];
    client.events.on('renewalFailing', (observation) => observed.push(observation));
    client.events.once('renewed', (observation) => observed.push(observation));
    const lease = await client.lock(name).lock();
    isDown = true;
    await eventually(5_000, () => observed.length > 0);
    isDown = false;
    await eventually(5_000, () => observed.some(({ level }) => level === 'info'));
    assert.ok(lease.isValid);
    assert.equal(await lease.release(), 'released');
  });
});

describe('a mistake', () => {
  it('in the order of the arguments of `using` is refused', async () => {
    await using client = await open();
    let ran = 0;
    const body = () => {
      ran += 1;
    };
    for (const target of [fresh(), client.lock(fresh())]) {
      const misplaced = client.using(target as string, body as never, { waitMs: 0 } as never);
      const namesAdvice = (error: unknown) =>
        error instanceof InvalidArgumentError &&
        /comes last; call using\(lock, options, function\)/.test(error.message);
      await assert.rejects(misplaced, namesAdvice);
    }
    assert.equal(ran, 0);
  });
});

describe('an error', () => {
  it('has all fields in JSON', async () => {
    await using client = await open();
    const name = fresh();
    const held = await client.lock(name).lock();
    await using other = await open();
    const error = await other
      .lock(name)
      .lock({ waitMs: 0 })
      .catch((error: unknown) => error);
    const written = JSON.parse(JSON.stringify({ error })).error;
    assert.equal(written.name, 'LockTimeoutError');
    assert.equal(written.message, (error as Error).message);
    assert.equal(written.code, 'STEADLOCK_LOCK_TIMEOUT');
    assert.equal(written.lockName, name);
    assert.equal(typeof written.holder.owner, 'string');
    assert.ok(!('stack' in written));
    await held.release();
    const down = await connect({ eval: () => Promise.reject(new Error('cut')) }, { connectTimeoutMs: 50 }).catch(
      (error) => error,
    );
    assert.match(JSON.parse(JSON.stringify(down)).cause, /cut/);
  });
});

describe('several primaries', () => {
  it('are a RedLock that works while a minority is down', async () => {
    await using second = await RedisServer.start();
    const connections = [redis, new Redis(second.url)];
    const down: RedisClient = { name: 'down', eval: () => Promise.reject(new Error('down')) };
    const up = connections.map((connection) => ioredis(connection));
    await using client = await redlock([...up, down]);
    const name = fresh();
    const lease = await client.lock(name).lock();
    assert.equal(lease.token, null);
    assert.deepEqual(await Promise.all(connections.map((one) => one.exists(name))), [1, 1]);
    assert.equal(await lease.release(), 'released');
    await assert.rejects(redlock([...up, up[0] as RedisClient]), MisconfiguredError);
    const many = [down, { ...down, name: 'down too' }, up[0] as RedisClient];
    await assert.rejects(redlock(many, { connectTimeoutMs: 300 }), UnavailableError);
    connections[1]?.disconnect();
  });
});

describe('a server that refuses', () => {
  it('because it has too many clients is asked again', async () => {
    let attempts = 0;
    await using client = await open({
      eval: (...call) => {
        attempts += 1;
        return attempts > 2 ? run(...call) : Promise.reject(new ReplyError('ERR max number of clients reached'));
      },
    });
    assert.equal(await (await client.lock(fresh()).lock()).release(), 'released');
  });

  it('while it starts becomes one of several primaries later', async () => {
    const servers = await Promise.all([RedisServer.start(), RedisServer.start()]);
    const connections = [redis, ...servers.map(({ url }) => new Redis(url))];
    const clients = connections.map((one) => ioredis(one));
    const last = clients[2] as RedisClient;
    let answer: RedisClient['eval'] = () => Promise.reject(new Error('down'));
    const starting: RedisClient = { ...last, eval: (...call) => answer(...call) };
    await using client = await redlock([...clients.slice(0, 2), starting]);
    let refusals = 0;
    answer = (...call) => {
      if (refusals === 2) return last.eval(...call);
      refusals += 1;
      return Promise.reject(new ReplyError('NOAUTH Authentication required.'));
    };
    await eventually(10_000, async () => {
      const name = fresh();
      const lease = await client.lock(name).lock();
      const count = await connections[2]?.exists(name);
      await lease.release();
      return count === 1;
    });
    for (const one of connections.slice(1)) one.disconnect();
    for (const server of servers) await server[Symbol.asyncDispose]();
  });
});

describe('a core that fails', () => {
  it('while it connects rejects connect()', async (test) => {
    test.mock.method(console, 'error', () => {});
    let clock: { mock: { restore(): void } } | undefined;
    const opening = open({
      async eval() {
        clock = test.mock.method(performance, 'now', () => {
          throw new Error('trapped');
        });
        return 1;
      },
    });
    await assert.rejects(opening, UnavailableError);
    clock?.mock.restore();
  });

  it('rejects all waiters, loses all leases, and never hangs', async (test) => {
    test.mock.method(console, 'error', () => {});
    const [held, wanted] = [fresh(), fresh()];
    await using other = await open();
    const theirs = await other.lock(wanted).lock();
    const client = await open();
    const lease = await client.lock(held).lock();
    const waiting = client.lock(wanted).lock();
    await eventually(
      5_000,
      async () => ((await redis.pubsub('NUMSUB', `redisson_lock__channel:{${wanted}}`))[1] as number) > 0,
    );
    // The exception ends a call of the core in the middle, as a trap of WebAssembly does.
    const clock = test.mock.method(performance, 'now', () => {
      throw new Error('trapped');
    });
    assert.equal(lease.isValid, false);
    clock.mock.restore();
    await assert.rejects(waiting, UnavailableError);
    assert.ok(lease.signal.aborted);
    assert.equal(lease.lostReason, 'expired');
    assert.equal(lease.remainingMs, 0);
    await assert.rejects(client.lock(fresh()).lock(), UnavailableError);
    await assert.rejects(lease.release(), UnavailableError);
    await client.close();
    // Other clients still work.
    assert.equal(await theirs.release(), 'released');
  });
});

describe('a program', () => {
  const PROGRAM = `
    import { Redis } from 'ioredis';
    import { connect } from 'steadlock-web';
    import { ioredis } from 'steadlock-web/ioredis';
    const redis = new Redis(process.argv[1]);
    const client = await connect(ioredis(redis), { renew: true });
    const lease = await client.lock(process.argv[2]).lock();
    console.log(lease.isValid);
    redis.disconnect();
  `;

  it('exits while a lock is held and renewed, once its own connections are closed', { timeout: 20_000 }, async () => {
    const child = spawn(process.execPath, ['--input-type=module', '--eval', PROGRAM, server.url, fresh()], {
      cwd: `${ROOT}/packages/web`,
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    const [output] = await once(child.stdout.setEncoding('utf8'), 'data');
    const [code] = await once(child, 'exit');
    assert.deepEqual([output, code], ['true\n', 0]);
  });
});

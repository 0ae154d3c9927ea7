// Tests of the information about clients: a client reports its program and machine, and others read them.

import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { hostname } from 'node:os';
import { basename, join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  type Client,
  type ClientInfo,
  type ConnectOptions,
  connect,
  InvalidArgumentError,
  LockTimeoutError,
  redlock,
} from 'steadlock';
import { run } from './run.js';
import { COMMAND, RedisServer } from './server.js';

const ROOT = join(__dirname, '..', '..');
const VERSION = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')).version;
const PROGRAM = basename(__filename);

/** Checks that the information is about this process, whose client began to connect at `connectedAt`. */
function assertIsThisProcess(info: ClientInfo | null | undefined, label: string, connectedAt: number): void {
  assert.ok(info, 'the client of the holder is not known');
  const { since, ...rest } = info;
  assert.deepEqual(rest, {
    host: hostname(),
    pid: process.pid,
    program: PROGRAM,
    language: `node ${process.versions.node}`,
    version: VERSION,
    label,
  });
  assert.ok(since instanceof Date);
  assert.ok(since.getTime() > connectedAt - 1_000 && since.getTime() <= Date.now(), since.toISOString());
  assert.ok(Object.isFrozen(info));
}

/** Checks that another client and a waiter that times out learn the holder. Returns the waiter's error. */
async function assertNamesTheHolder(
  open: (options: ConnectOptions) => Promise<Client>,
  waitMs: number,
): Promise<LockTimeoutError> {
  const connectedAt = Date.now();
  await using holder = await open({ clientLabel: 'blue' });
  await using other = await open({});
  const lease = await holder.lock('stock').lock();
  const lock = other.lock('stock');
  assertIsThisProcess((await lock.holder())?.client, 'blue', connectedAt);
  const refused = await lock.lock({ waitMs }).catch((error: unknown) => error);
  assert.ok(refused instanceof LockTimeoutError, `${refused}`);
  assertIsThisProcess(refused.holder?.client, 'blue', connectedAt);
  await lease.release();
  const unlabelled = await lock.lock();
  assertIsThisProcess((await holder.lock('stock').holder())?.client, '', connectedAt);
  await unlabelled.release();
  return refused;
}

describe('the client of a holder', () => {
  let server: RedisServer;

  before(async () => {
    server = await RedisServer.start();
  });

  after(() => server[Symbol.asyncDispose]());

  it('names its connections on the server', async () => {
    const names = async () => {
      const list = (await server.store.client('LIST')) as string;
      return new Set([...list.matchAll(/ name=(\S*) /g)].map(([, name]) => name));
    };
    {
      await using _plain = await connect(server.url);
      await using _odd = await connect(server.url, { clientLabel: 'blau und grün' });
      await using _silent = await connect(server.url, { clientInfo: false });
      const all = await names();
      for (const name of [`steadlock:${PROGRAM}`, 'steadlock:blau_und_gr_n', 'steadlock']) {
        assert.ok(all.has(name), `${name}: ${[...all]}`);
      }
    }
  });

  it('is named on a server and in the embedded store, and in errors', async () => {
    const named = `${PROGRAM} (blue), pid ${process.pid} on ${hostname()}`;
    for (const url of [server.url, 'memory://named']) {
      const { message } = await assertNamesTheHolder((options) => connect(url, options), 250);
      assert.ok(message.includes(named), message);
    }
  });

  it('is named by a RedLock', async () => {
    const urls = ['a', 'b', 'c'].map((name) => `memory://named-${name}`);
    await assertNamesTheHolder((options) => redlock(urls, options), 300);
  });

  it('is unknown if either client has switched clientInfo off', async () => {
    await server.store.flushall();
    const infoKeys = async () => (await server.store.keys('*:client')).length;
    await using silent = await connect(server.url, { clientInfo: false });
    const unnamed = await silent.lock('silent').lock();
    assert.equal(await infoKeys(), 0);
    await using client = await connect(server.url, { clientInfo: true });
    const named = await client.lock('named').lock();
    assert.equal(await infoKeys(), 1);
    const holder = await client.lock('silent').holder();
    assert.equal(holder?.client, null);
    assert.equal((await silent.lock('named').holder())?.client, null);
    const refused = await client
      .lock('silent')
      .lock({ waitMs: 250 })
      .catch((error: unknown) => error);
    assert.ok(refused instanceof LockTimeoutError);
    assert.equal(refused.holder?.client, null);
    assert.ok(refused.message.includes(holder.owner), refused.message);
    await Promise.all([unnamed.release(), named.release()]);
  });

  it('has a label of one short line', async () => {
    const refused = [
      { clientLabel: 'a\nb' },
      { clientLabel: 'x'.repeat(201) },
      { clientLabel: 'x', clientInfo: false },
      { clientLabel: 7 as unknown as string },
      { clientLabel: null as unknown as string },
      { clientInfo: 1 as unknown as boolean },
      { clientInfo: 'no' as unknown as boolean },
    ];
    for (const options of refused) {
      await assert.rejects(connect('memory://', options), InvalidArgumentError, JSON.stringify(options));
    }
    await using _longest = await connect('memory://', { clientLabel: 'ü'.repeat(200) });
    await using _none = await connect('memory://', { clientLabel: '', clientInfo: undefined });
  });

  it('is named by `steadlock inspect`', async (test) => {
    if (!existsSync(COMMAND)) return test.skip(`${COMMAND} is not built`);
    await using client = await connect(server.url, { clientLabel: 'blue' });
    const lease = await client.lock('inspected').lock();
    const text = execFileSync(COMMAND, ['inspect', 'inspected', '--json', '--url', server.url], { encoding: 'utf8' });
    const { info } = JSON.parse(text).servers[0].holds[0].holder;
    assert.deepEqual(
      [info.host, info.pid, info.program, info.language, info.label],
      [hostname(), process.pid, PROGRAM, `node ${process.versions.node}`, 'blue'],
    );
    await lease.release();
  });

  it('is known to another process', async () => {
    await using client = await connect(server.url);
    const lease = await client.lock('shared').lock();
    const ended = await run(
      `import { connect } from 'steadlock';
      const client = await connect();
      console.log((await client.lock('shared').holder()).client.pid);
      const own = await client.lock('own').lock();
      const { program, pid } = (await client.lock('own').holder()).client;
      console.log(program, pid === process.pid);
      await own.release();
      await client.close();`,
      server.url,
    );
    assert.equal(ended.errors, '');
    assert.deepEqual(ended.output.trim().split('\n'), [`${process.pid}`, 'node true']);
    await lease.release();
  });
});

describe('a process whose first call is refused without waiting', () => {
  it('names the holder', async () => {
    await using server = await RedisServer.start();
    await using client = await connect(server.url);
    const lease = await client.lock('busy').lock();
    for (const options of ['{}', '{ lazy: true }']) {
      const ended = await run(
        `import { connect } from 'steadlock';
        const client = await connect(process.env.STEADLOCK_URL, ${options});
        await client.lock('busy').lock({ waitMs: 0 }).catch(({ message }) => console.log(message));
        await client.close();`,
        server.url,
      );
      assert.equal(ended.errors, '');
      assert.ok(ended.output.includes(`held by ${PROGRAM}, pid ${process.pid} on ${hostname()} for`), ended.output);
    }
    await lease.release();
  });
});

describe('the language', () => {
  const { languageOf } = createRequire(__filename)(join(ROOT, 'dist', 'program.js'));

  it('is Deno or Bun even if process.versions.node is set', () => {
    assert.equal(languageOf({ node: '20.19.0' }), 'node 20.19.0');
    assert.equal(languageOf({ node: '26.3.0', bun: '1.4.5' }), 'bun 1.4.5');
    assert.equal(languageOf({ node: '26.3.0', deno: '2.9.6' }), 'deno 2.9.6');
  });
});

describe('the name of a program', () => {
  const { programName } = createRequire(__filename)(join(ROOT, 'dist', 'program.js'));

  it('is the file name of its script', () => {
    assert.equal(programName('/srv/shop/orders.js', ['--enable-source-maps']), 'orders.js');
    assert.equal(programName(), PROGRAM);
  });

  it('is never an argument', () => {
    for (const flags of [
      ['-e', '1'],
      ['-pe', '1'],
      ['--eval=1'],
      ['--print', '1'],
      ['--input-type=module', '--eval', ''],
    ]) {
      assert.equal(programName('/run/secrets/password', flags), 'node', `${flags}`);
    }
    for (const script of [null, '-', '[worker eval]', 'password', '/', 7]) {
      assert.equal(programName(script, []), 'node', `${script}`);
    }
  });
});

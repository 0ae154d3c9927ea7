// Tests of the package as users get it: both module systems, its types, its kinds of errors and locks, and its README.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { after, describe, it } from 'node:test';
import * as steadlock from 'steadlock';
import { run } from './run.js';
import { RedisServer } from './server.js';

const exported: Record<string, unknown> = { ...steadlock };
const ROOT = join(__dirname, '..', '..');

/** Code of a user, for both module systems. */
const SAMPLE = `
const client: Client = await connect('memory://', { leaseMs: 10_000, retryIntervalMs: [500, 750] });
const providers: InstrumentOptions = { tracerProvider: trace.getTracerProvider(), meterProvider: undefined };
const instrumentation: Instrumentation = instrument(client, providers);
instrumentation.uninstrument();
{
  using again = instrument(client);
}
// @ts-expect-error a tracer is not a provider
instrument(client, { tracerProvider: trace.getTracer('name') });
const policy: OnUnavailable = 'local';
const guarded: Client = await connect('memory://', { onUnavailable: policy, breakerFailures: 3, breakerPauseMs: 500 });
await guarded.close();
const majority: Client = await redlock(['memory://a', 'memory://b', 'memory://c'] as const, { leaseMs: 10_000 });
await majority.close();
const lock: Lock = client.lock('name', { leaseMs: 1_000, renew: true, maxHoldMs: 5_000, waitMs: 100, fencing: true });
const lease: Lease = await lock.lock({ waitMs: 5, signal: AbortSignal.timeout(5), within: undefined });
const none: Lease | null = await lock.tryLock({ within: lease });
const token: number | null = lease.token;
const left: 'released' | 'unknown' = await lock.unlock(lease);
const outcome: 'released' | 'expired' | 'stolen' | 'unknown' = await lease.release();
const reason: LostReason | null = lease.lostReason;
const answer: number = await client.using('name', { waitMs: 5 }, async (held: Lease, signal: AbortSignal) => 42);
const direct: string = await client.using('name', (held) => held.name);
const both: ReadWriteLock = client.readWriteLock('name', { leaseMs: 1_000 });
const sides: Lock[] = [both.read, both.write, client.mutex('name'), client.fairLock('name', { fencing: false })];
const semaphore: Semaphore = client.semaphore('name', 5, { waitMs: 100 });
const permits: Lease = await semaphore.acquire(2, { signal: AbortSignal.timeout(5) });
const permit: Lease | null = await semaphore.tryAcquire();
const free: number = (await semaphore.available()) + semaphore.limit;
const all: Lock = client.multiLock([...sides, semaphore], { maxHoldMs: 1_000 });
const forced: boolean = await client.forceRelease(semaphore);
const changed: boolean = await client.setLimit('name', 6);
const local: number = await client.using('name', { onUnavailable: 'local' }, () => 42);
const perhaps: number | undefined = await client.using(semaphore, { onUnavailable: 'skip' }, () => 42);
const degraded: boolean = lease.degraded;
const scoped: number = await client.using(all, { waitMs: 5, signal: AbortSignal.timeout(5) }, () => 42);
const locked: boolean = (await lock.isLocked()) || lock.isHeld();
const holder: Holder | null = await lock.holder();
const info: ClientInfo | null | undefined = holder?.client;
const since: Date | undefined = info?.since;
const pair: Lock = client.multiLock([lock, semaphore.permits(2)]);
if (lease.isValid && lease.remainingMs > 5 && !lease.signal.aborted) await lease.extend(5_000);
try {
  await lease.release();
} catch (error) {
  if (error instanceof LockTimeoutError) console.log(error.holder?.owner, error.kind, error.code);
  if (error instanceof SteadlockError) console.log(error.lockName, error.operation, error.skipped, error.retryable);
}
{
  await using other = await connect();
  await using held = await other.lock('name').lock();
}
await client.close();
// @ts-expect-error a wait is a number of milliseconds
await lock.lock({ waitMs: '5' });
// @ts-expect-error there is no policy 'wait'
await lock.lock({ onUnavailable: 'wait' });
// @ts-expect-error a skipped call returns undefined
const surely: number = await client.using('name', { onUnavailable: 'skip' }, () => 42);
// @ts-expect-error a call cannot change 'fencing' of a lock object
await client.using(all, { fencing: false }, () => 42);
// @ts-expect-error a name is not a lock object
client.multiLock(['name']);
// @ts-expect-error 'unlock' needs a lease
await lock.unlock();
// @ts-expect-error a refused attempt has returned null
await lock.unlock(none);
// @ts-expect-error 'release' of a semaphore needs a lease
await semaphore.release();
// @ts-expect-error 'redlock' needs several URLs
await redlock('memory://');
// @ts-expect-error a lease comes from a lock only
new Lease();
console.log(permits, permit, free, forced, scoped, none, token, outcome, left, reason, answer, direct, locked, holder, since, pair);
console.log(local, perhaps, degraded, surely);
`;

describe('the package', () => {
  // The folder is inside the package, so that the package's own name resolves.
  const folder = mkdtempSync(join(ROOT, 'build', 'sample-'));
  after(() => rmSync(folder, { recursive: true }));

  it('has types for import and for require', () => {
    const names = 'connect, SteadlockError, LockTimeoutError, redlock';
    const telemetry = 'Instrumentation, InstrumentOptions';
    const types = 'Client, ClientInfo, Holder, Lease, Lock, LostReason, OnUnavailable, ReadWriteLock, Semaphore';
    writeFileSync(
      join(folder, 'esm.mts'),
      `import { ${names} } from 'steadlock';\nimport type { ${types} } from 'steadlock';\n` +
        `import { trace } from '@opentelemetry/api';\nimport { instrument } from 'steadlock/opentelemetry';\n` +
        `import type { ${telemetry} } from 'steadlock/opentelemetry';\n${SAMPLE}`,
    );
    writeFileSync(
      join(folder, 'cjs.cts'),
      `import steadlock = require('steadlock');\nimport type { ${types} } from 'steadlock';\n` +
        `import { trace } from '@opentelemetry/api';\nimport opentelemetry = require('steadlock/opentelemetry');\n` +
        `import type { ${telemetry} } from 'steadlock/opentelemetry';\nconst { instrument } = opentelemetry;\n` +
        `const { ${names} } = steadlock;\ntype SteadlockError = steadlock.SteadlockError;\n` +
        `async function main(): Promise<void> {${SAMPLE}}\nvoid main();\n`,
    );
    const compiler = createRequire(__filename).resolve('typescript/package.json');
    const options =
      '--ignoreConfig --noEmit --strict --module node16 --target es2022 --lib es2022,esnext.disposable --types node';
    const files = [join(folder, 'esm.mts'), join(folder, 'cjs.cts')];
    const checked = spawnSync(process.execPath, [join(compiler, '..', 'bin', 'tsc'), ...options.split(' '), ...files], {
      cwd: ROOT,
      encoding: 'utf8',
    });
    assert.equal(checked.stdout + checked.stderr, '');
    assert.equal(checked.status, 0);
  });

  it('is one module with one set of classes, imported or required', async () => {
    const ended = await run(
      `import * as imported from 'steadlock';
      import { createRequire } from 'node:module';
      const required = createRequire(process.cwd() + '/')('steadlock');
      const names = Object.keys(required).sort();
      for (const name of names) if (imported[name] !== required[name]) throw new Error(name);
      console.log(names.join(' '));
      const { instrument } = await import('steadlock/opentelemetry');
      const all = createRequire(process.cwd() + '/')('steadlock/opentelemetry');
      if (all.instrument !== instrument) throw new Error('instrument');
      console.log(Object.keys(all).join(' '));`,
      'memory://',
    );
    assert.equal(ended.errors, '');
    const [names, telemetry] = ended.output.split('\n');
    assert.deepEqual(names?.split(' '), Object.keys(steadlock).sort());
    assert.equal(telemetry, 'instrument');
  });

  it('finds the C library without a diagnostic report', async () => {
    const ended = await run(
      `const before = process.report.excludeNetwork;
      process.report.getReport = () => { throw new Error('a report was made'); };
      const { connect } = await import('steadlock');
      await (await connect('memory://')).close();
      console.log(process.report.excludeNetwork === before);`,
      'memory://',
    );
    assert.equal(ended.errors, '');
    assert.equal(ended.output, 'true\n');
    const { cLibraryIn } = createRequire(__filename)(join(ROOT, 'dist', 'native.js'));
    const node = '55d0c0a00000-55d0c0a01000 r--p 00000000 08:01 42 /usr/bin/node\n';
    const musl = '7f01c0a00000-7f01c0a14000 r--p 00000000 08:01 43 /lib/ld-musl-x86_64.so.1\n';
    const glibc = '7f01c0a00000-7f01c0a28000 r--p 00000000 08:01 44 /usr/lib/x86_64-linux-gnu/libc.so.6\n';
    const folder = '7f01c0b00000-7f01c0b28000 r--p 00000000 08:01 45 /opt/ld-musl-notes/some.so\n';
    assert.equal(cLibraryIn(node + musl + folder), 'musl');
    assert.equal(cLibraryIn(node + glibc + folder), 'gnu');
  });

  it('explains a missing native library', () => {
    const { load } = createRequire(__filename)(join(ROOT, 'dist', 'native.js'));
    const binding = {};
    const nowhere = () => undefined;
    assert.equal(
      load('linux-x64-gnu', nowhere, () => binding),
      binding,
    );
    assert.throws(() => load('linux-x64-gnu', nowhere), /steadlock-linux-x64-gnu.*--omit=optional/);
    assert.throws(() => load('sunos-x64', nowhere), /no native library for sunos-x64, only for .*linux-x64-gnu/);
    const broken = () => assert.fail("version `GLIBC_2.28' not found");
    assert.throws(
      () => load('linux-x64-gnu', broken, () => binding),
      /for linux-x64-gnu cannot be loaded here: .*GLIBC_2.28/,
    );
  });

  it('loads the package of each platform', () => {
    const source = readFileSync(join(ROOT, 'dist', 'native.js'), 'utf8');
    const named = /TARGETS = \[([^\]]*)\]/.exec(source)?.[1]?.match(/[\w-]+/g);
    const loaded = [...source.matchAll(/case '([\w-]+)':\s+return require\('steadlock-([\w-]+)'\)/g)];
    assert.ok(named?.length);
    assert.deepEqual(
      loaded.map(([, name]) => name),
      named,
    );
    for (const [, name, from] of loaded) assert.equal(from, name);
  });

  it('has a class for each error kind of the core', () => {
    const { native } = createRequire(__filename)(join(ROOT, 'dist', 'native.js'));
    const { errorOf } = createRequire(__filename)(join(ROOT, 'dist', 'errors.js'));
    for (const kind of native.vocabulary().kinds as string[]) {
      const error = errorOf({ kind, message: 'text', operation: 'acquire', lockName: 'name', retryable: false });
      assert.ok(error instanceof steadlock.SteadlockError);
      assert.equal(error.kind, kind);
      assert.match(error.code, /^STEADLOCK(_[A-Z]+)+$/);
      assert.equal(error.lockName, 'name');
      assert.equal(error.skipped, false);
      // A cancelled call rejects with the reason of its signal, so this kind has no class.
      if (kind === 'Cancelled') continue;
      assert.equal(error.constructor, exported[`${kind}Error`], kind);
      assert.equal(error.name, `${kind}Error`);
    }
  });

  it('makes locks of each kind of the core', async () => {
    const { native } = createRequire(__filename)(join(ROOT, 'dist', 'native.js'));
    const { FACTORIES } = createRequire(__filename)(join(ROOT, 'dist', 'kinds.js'));
    assert.deepEqual(Object.keys(FACTORIES), native.vocabulary().lockKinds);
    await using client = await steadlock.connect('memory://');
    for (const factory of Object.values(FACTORIES) as 'lock'[]) {
      assert.equal(typeof client[factory], 'function', factory);
    }
  });

  it('has a README whose programs run', async () => {
    await using server = await RedisServer.start();
    await using second = await RedisServer.start();
    await using third = await RedisServer.start();
    const servers = { 'localhost:6379': server, 'one:6379': server, 'two:6379': second, 'three:6379': third };
    const readme = readFileSync(join(ROOT, 'README.md'), 'utf8');
    const programs = [...readme.matchAll(/```js\n([\s\S]*?)```/g)].map(([, program]) => program as string);
    assert.equal(programs.length, 9);
    for (const program of programs) {
      const here = Object.entries(servers).reduce(
        (text, [address, { url }]) => text.replace(`redis://${address}`, url),
        program,
      );
      const ended = await run(here, server.url);
      assert.equal(ended.errors, '');
      assert.equal(ended.code, 0, program);
    }
    const first = (programs[0] as string).split('\n').filter((line) => line.trim() !== '');
    assert.ok(first.length <= 5);
    const keys = await server.store.keys('*');
    assert.deepEqual(
      keys.filter((key) => !key.startsWith('steadlock:')),
      [],
    );
  });
});

// Tests of programs that have reached their limit of open files.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { run } from './run.js';
import { RedisServer } from './server.js';

/**
 * Prints `ready` and its process id once it holds a lock, `told` once each call has failed for want of descriptors, and
 * `recovered` once the calls succeed again.
 */
const PROGRAM = `
  import assert from 'node:assert/strict';
  import { connect, UnavailableError } from 'steadlock';

  // The client looks its server up by name.
  const url = process.env.STEADLOCK_URL.replace('127.0.0.1', 'localhost');
  const options = { commandTimeoutMs: 1_000, connectTimeoutMs: 1_000 };
  const client = await connect(url, { ...options, leaseMs: 60_000 });
  const lazy = await connect(url, { ...options, lazy: true });
  const lock = client.lock('door');
  const deadline = performance.now() + 30_000;

  async function failure(call) {
    const error = await call().then(() => undefined, (error) => error);
    if (error !== undefined) assert.ok(error instanceof UnavailableError, String(error));
    return error?.message ?? '';
  }

  async function until(condition, ...calls) {
    for (const call of calls) {
      while (!condition(await failure(call))) assert.ok(performance.now() < deadline, String(call));
    }
  }

  async function use(client) {
    const lease = await client.lock('door').tryLock({ waitMs: 50 });
    await lease?.release();
  }

  async function connectAndClose() {
    await (await connect(url, options)).close();
  }

  const held = await client.lock('held').lock();
  const isTold = (message) => message.includes('open files');
  const calls = [() => use(client), () => client.lock('held').isLocked(), () => held.extend()];
  const others = [() => use(lazy), connectAndClose];
  console.log('ready', process.pid);
  await until(isTold, ...calls, ...others);
  for (const call of [...calls, ...others]) assert.match(await failure(call), /open files/);
  await Promise.all(Array.from({ length: 8 }, () => until(isTold, ...calls)));
  console.log('told');
  await until((message) => message === '', ...calls, ...others);
  assert.ok(held.isValid);
  assert.equal(await held.release(), 'released');
  await client.close();
  await lazy.close();
  console.log('recovered');
`;

const skip = process.platform === 'linux' ? false : 'only Linux changes the limits of a running process';

describe('a program that may open no more files', () => {
  it('is told so by each call, and goes on when it may open some again', { skip }, async () => {
    await using server = await RedisServer.start();
    const limit = async (pid: string, most: string) => {
      await promisify(execFile)('prlimit', ['--pid', pid, `--nofile=${most}:`]);
    };
    const steps: Promise<void>[] = [];
    let before = '';
    const follow = (output: string) => {
      const pid = /ready (\d+)\n/.exec(output)?.[1] ?? '';
      if (steps.length === 0 && pid !== '') steps.push(starve(pid));
      if (steps.length === 1 && output.includes('told\n')) steps.push(limit(pid, before));
    };
    const starve = async (pid: string) => {
      const told = await promisify(execFile)('prlimit', ['--pid', pid, '--nofile', '--output=SOFT', '--noheadings']);
      before = told.stdout.trim();
      await limit(pid, '3');
      for (const kind of ['normal', 'pubsub']) await server.store.call('CLIENT', 'KILL', 'TYPE', kind);
    };
    const ended = await run(PROGRAM, server.url, follow);
    await Promise.all(steps);
    assert.equal(ended.code, 0, ended.output + ended.errors);
    assert.match(ended.output, /recovered\n$/);
  });
});

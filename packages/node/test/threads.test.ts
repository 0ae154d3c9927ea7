// Tests of programs that get no more threads.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { describe, it } from 'node:test';
import { promisify } from 'node:util';
import { run } from './run.js';
import { RedisServer } from './server.js';

/**
 * Prints `ready` and its process id once it holds a lock, `told` once each call that needs a thread has failed for want
 * of one and the others go on, and `recovered` once all calls succeed again.
 */
const PROGRAM = `
  import assert from 'node:assert/strict';
  import { connect, UnavailableError } from 'steadlock';

  // The client looks its server up by name.
  const url = process.env.STEADLOCK_URL.replace('127.0.0.1', 'localhost');
  const options = { commandTimeoutMs: 1_000, connectTimeoutMs: 1_000 };
  const client = await connect(url, { ...options, leaseMs: 60_000 });
  const lazy = await connect(url, { ...options, lazy: true });
  const held = await client.lock('held').lock();
  const lost = await client.lock('lost').lock();
  const deadline = performance.now() + 30_000;

  async function failure(call) {
    const error = await call().then(() => undefined, (error) => error);
    if (error !== undefined) assert.ok(error instanceof UnavailableError, String(error));
    return error?.message ?? '';
  }

  async function until(condition, call) {
    while (!condition(await failure(call))) assert.ok(performance.now() < deadline, String(call));
  }

  async function use(client) {
    const lease = await client.lock('door').tryLock({ waitMs: 50 });
    await lease?.release();
  }

  async function connectAndClose() {
    await (await connect(url, options)).close();
  }

  // Limits of threads do not apply to root. They count the threads of all processes of a user, so this is a new one.
  if (process.getuid() === 0) process.setuid(1_000_000 + process.pid);
  console.log('ready', process.pid);
  const others = [connectAndClose, () => use(lazy)];
  for (const call of others) await until((message) => message.includes('threads'), call);
  for (const call of others) assert.match(await failure(call), /threads/);
  // The connections were cut meanwhile.
  await until((message) => message === '', () => use(client));
  assert.ok(held.isValid);
  const aborted = new Promise((resolve) => lost.signal.addEventListener('abort', resolve));
  assert.ok(await client.forceRelease(client.lock('lost')));
  await aborted;
  console.log('told');
  for (const call of others) await until((message) => message === '', call);
  assert.equal(await held.release(), 'released');
  await client.close();
  await lazy.close();
  console.log('recovered');
`;

const skip = process.platform === 'linux' ? false : 'only Linux changes the limits of a running process';

describe('a program that gets no more threads', () => {
  it('is told so by calls that need one, and goes on with the others', { skip }, async () => {
    await using server = await RedisServer.start();
    // Only the program's own user may change its limits.
    const prlimit = (pid: string, ...options: string[]) => {
      const { uid } = statSync(`/proc/${pid}`);
      return promisify(execFile)('prlimit', ['--pid', pid, ...options], { uid });
    };
    const limit = async (pid: string, most: string) => {
      await prlimit(pid, `--nproc=${most}:`);
    };
    const steps: Promise<void>[] = [];
    let before = '';
    const follow = (output: string) => {
      const pid = /ready (\d+)\n/.exec(output)?.[1] ?? '';
      if (steps.length === 0 && pid !== '') steps.push(starve(pid));
      if (steps.length === 1 && output.includes('told\n')) steps.push(limit(pid, before));
    };
    const starve = async (pid: string) => {
      const told = await prlimit(pid, '--nproc', '--output=SOFT', '--noheadings');
      before = told.stdout.trim();
      await limit(pid, '1');
      for (const kind of ['normal', 'pubsub']) await server.store.call('CLIENT', 'KILL', 'TYPE', kind);
    };
    const ended = await run(PROGRAM, server.url, follow);
    await Promise.all(steps);
    assert.equal(ended.code, 0, ended.output + ended.errors);
    assert.match(ended.output, /recovered\n$/);
  });
});

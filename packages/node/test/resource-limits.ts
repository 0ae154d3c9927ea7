// Programs that reach a limit of their process while they run.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { statSync } from 'node:fs';
import { promisify } from 'node:util';
import { run } from './run.js';
import { RedisServer } from './server.js';

/** Whether tests of such programs are skipped, and why. */
export const skip = process.platform === 'linux' ? false : 'only Linux changes the limits of a running process';

/** The beginning of each program: a client, a client that has not connected yet, and functions that call them. */
const BEGINNING = `
  import assert from 'node:assert/strict';
  import { connect, UnavailableError } from 'steadlock';

  // By name, so that each connection needs a lookup.
  const url = process.env.STEADLOCK_URL.replace('127.0.0.1', 'localhost');
  const options = { commandTimeoutMs: 1_000, connectTimeoutMs: 1_000 };
  const client = await connect(url, { ...options, leaseMs: 60_000 });
  const lazy = await connect(url, { ...options, lazy: true });
  const held = await client.lock('held').lock();
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
`;

const END = `
  assert.ok(held.isValid);
  assert.equal(await held.release(), 'released');
  await client.close();
  await lazy.close();
  console.log('recovered');
`;

/**
 * Runs a program that prints `ready` and its process id, and `refused` later. Between the two lines its limit of a
 * resource is `most`, and its connections are cut once. The program must then recover and end with code 0.
 *
 * @param resource the option of `prlimit`, such as `nofile`
 */
export async function runWithLimit(program: string, resource: string, most: number): Promise<void> {
  await using server = await RedisServer.start();
  // Only the program's own user may change its limits.
  const prlimit = (pid: string, ...options: string[]) => {
    const { uid } = statSync(`/proc/${pid}`);
    return promisify(execFile)('prlimit', ['--pid', pid, ...options], { uid });
  };
  const limit = async (pid: string, most: string) => {
    await prlimit(pid, `--${resource}=${most}:`);
  };
  const steps: Promise<void>[] = [];
  let before = '';
  const follow = (output: string) => {
    const pid = /ready (\d+)\n/.exec(output)?.[1] ?? '';
    if (steps.length === 0 && pid !== '') steps.push(starve(pid));
    if (steps.length === 1 && output.includes('refused\n')) steps.push(limit(pid, before));
  };
  const starve = async (pid: string) => {
    const current = await prlimit(pid, `--${resource}`, '--output=SOFT', '--noheadings');
    before = current.stdout.trim();
    await limit(pid, String(most));
    for (const kind of ['normal', 'pubsub']) await server.store.call('CLIENT', 'KILL', 'TYPE', kind);
  };
  const ended = await run(BEGINNING + program + END, server.url, follow);
  await Promise.all(steps);
  assert.equal(ended.code, 0, ended.output + ended.errors);
  assert.match(ended.output, /recovered\n$/);
}

// Tests of programs that have reached their limit of open files.

import { describe, it } from 'node:test';
import { runWithLimit, skip } from './resource-limits.js';

/** Prints `refused` once each call has failed because the process has no descriptor left. */
const PROGRAM = `
  const isRefused = (message) => message.includes('open files');
  const calls = [() => use(client), () => client.lock('held').isLocked(), () => held.extend()];
  const others = [() => use(lazy), connectAndClose];
  console.log('ready', process.pid);
  await until(isRefused, ...calls, ...others);
  for (const call of [...calls, ...others]) assert.match(await failure(call), /open files/);
  await Promise.all(Array.from({ length: 8 }, () => until(isRefused, ...calls)));
  console.log('refused');
  await until((message) => message === '', ...calls, ...others);
`;

describe('a program without file descriptors', () => {
  it('gets an error from each call until it has descriptors again', { skip }, () => runWithLimit(PROGRAM, 'nofile', 3));
});

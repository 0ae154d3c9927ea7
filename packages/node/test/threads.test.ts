// Tests of programs that get no more threads.

import { describe, it } from 'node:test';
import { runWithLimit, skip } from './resource-limits.js';

/** Prints `refused` once each call that needs a thread has failed, while the other calls still work. */
const PROGRAM = `
  const lost = await client.lock('lost').lock();
  // The limit does not apply to root. It counts the threads of all processes of a user, so this user must be new.
  if (process.getuid() === 0) process.setuid(1_000_000 + process.pid);
  console.log('ready', process.pid);
  const others = [connectAndClose, () => use(lazy)];
  await until((message) => message.includes('threads'), ...others);
  for (const call of others) assert.match(await failure(call), /threads/);
  // The connections were cut meanwhile.
  await until((message) => message === '', () => use(client));
  assert.ok(held.isValid);
  const aborted = new Promise((resolve) => lost.signal.addEventListener('abort', resolve));
  assert.ok(await client.forceRelease(client.lock('lost')));
  await aborted;
  console.log('refused');
  await until((message) => message === '', ...others);
`;

describe('a program that gets no more threads', () => {
  it('gets an error from calls that need one, and can make the others', { skip }, () =>
    runWithLimit(PROGRAM, 'nproc', 1),
  );
});

// Tests that known defects of other lock libraries are found.
//
// Each check passes with the real code, and fails when the defect is put in. Most defects can be only in the core, and
// the core has such tests of its own. The defect here is in the end of a scope.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { describe, it } from 'node:test';
import { type Client, connect, type Lease, LockLostError, UnavailableError } from 'steadlock';
import { eventually } from './server.js';

/** An error of the program itself. */
class ProgramError extends Error {}

/** Runs a scope on the lock `door`, whose body throws after `mishap`. */
async function throwAfter(client: Client, mishap: (lease: Lease) => unknown): Promise<void> {
  await client.using('door', { leaseMs: 100 }, async (lease) => {
    await mishap(lease);
    throw new ProgramError('mine');
  });
}

/** Waits until the lease is lost, inside the scope. */
function lost(lease: Lease): Promise<unknown> {
  return eventually(5_000, () => lease.lostReason !== null);
}

/** Makes the release at the end of the scope fail. */
function unanswered(lease: Lease): void {
  Object.defineProperty(lease, 'release', { value: () => Promise.reject(new UnavailableError('no answer')) });
}

type Internals = typeof import('../dist/internals');
const { END_SCOPE } = createRequire(require.resolve('steadlock'))('./internals.js') as Internals;
type Leave = (this: Lease, bodyFailed: boolean) => Promise<void>;

describe('release error that masks the program’s own', () => {
  for (const { what, mishap, masked } of [
    { what: 'the lease was lost', mishap: lost, masked: LockLostError },
    { what: 'the release fails', mishap: unanswered, masked: UnavailableError },
  ]) {
    it(`is found when ${what}`, async () => {
      await using client = await connect('memory://');
      await assert.rejects(throwAfter(client, mishap), ProgramError);
      await withDefect(client, () => assert.rejects(throwAfter(client, mishap), masked));
    });
  }
});

/** Runs `work` with the defect: the end of every scope assumes that the body succeeded. */
async function withDefect(client: Client, work: () => Promise<void>): Promise<void> {
  const lease = await client.lock('any').lock();
  const prototype = Object.getPrototypeOf(lease) as Record<symbol, Leave>;
  await lease.release();
  const leave = prototype[END_SCOPE] as Leave;
  prototype[END_SCOPE] = function (this: Lease) {
    return leave.call(this, false);
  };
  try {
    await work();
  } finally {
    prototype[END_SCOPE] = leave;
  }
}

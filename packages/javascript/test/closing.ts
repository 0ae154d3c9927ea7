// Tests of releases after the close of their client. The close has released the locks, and a release in a `finally`
// hides no error of the program.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Client, ClosedError, type Lease, type Lock, LockLostError, type Semaphore } from './package.js';

const KINDS: Record<string, (client: Client, name: string) => Lock | Semaphore> = {
  lock: (client, name) => client.lock(name),
  mutex: (client, name) => client.mutex(name),
  fair_lock: (client, name) => client.fairLock(name),
  read_lock: (client, name) => client.readWriteLock(name).read,
  write_lock: (client, name) => client.readWriteLock(name).write,
  semaphore: (client, name) => client.semaphore(name, 3),
  multi: (client, name) => client.multiLock([client.lock(`${name}:a`), client.mutex(`${name}:b`)]),
};
const LEASES = { 'a renewed lease': { renew: true }, 'a fixed lease': { leaseMs: 30_000 } };

/** Defines the tests. Each call of `open` makes a new client of the same server. */
export function closing(open: () => Promise<Client>): void {
  let leases = 0;

  for (const [kind, lockOf] of Object.entries(KINDS)) {
    for (const [what, options] of Object.entries(LEASES)) {
      describe(`${what} of ${kind}, after close() of its client`, () => {
        const held = async () => {
          leases += 1;
          const client = await open();
          const lock = lockOf(client, `closing-${leases}`);
          const lease = await ('acquire' in lock ? lock.acquire(1, options) : lock.lock(options));
          return { client, lock, lease: lease as Lease };
        };

        it('returns released for each later release', async () => {
          for (const isEarly of [true, false]) {
            const { client, lease } = await held();
            const closed = client.close();
            if (!isEarly) await closed;
            assert.equal(await lease.release(), 'released');
            assert.equal(await lease.release(), 'released');
            await closed;
            assert.equal(lease.lostReason, 'closed');
            assert.ok(!lease.isValid && lease.remainingMs === 0);
          }
        });

        it('keeps the error of the program', async () => {
          const { client, lock, lease } = await held();
          const failing = async () => {
            try {
              await client.close();
              throw new TypeError('of the body');
            } finally {
              await lease.release();
            }
          };
          await assert.rejects(failing, /of the body/);
          const other = await open();
          const bodyOf = async () => {
            await other.close();
            throw new TypeError('of the body');
          };
          await assert.rejects(other.using(lockOf(other, `${lock.name}-using`), options, bodyOf), /of the body/);
        });

        it('is reported as lost at the end of a scope, and as closed by unlock()', async () => {
          const { client, lock, lease } = await held();
          await client.close();
          const unlocking = 'acquire' in lock ? lock.release(lease) : lock.unlock(lease);
          await assert.rejects(unlocking, ClosedError);
          const isClosedLoss = (error: unknown) => error instanceof LockLostError && error.reason === 'closed';
          await assert.rejects(lease[Symbol.asyncDispose](), isClosedLoss);
          const other = await open();
          const body = () => other.close();
          await assert.rejects(other.using(lockOf(other, `${lock.name}-using`), options, body), isClosedLoss);
        });
      });
    }
  }
}

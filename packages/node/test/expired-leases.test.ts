// Tests of leases after they expired or their client was closed: their memory, and what a late release returns.

import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { type Client, ClosedError, connect, type Lease, LockLostError, NotOwnerError } from 'steadlock';
import { collectGarbage } from './garbage.js';
import { eventually } from './server.js';

const SHORT_LEASE = { leaseMs: 100 };

function lost(...leases: Lease[]): Promise<unknown> {
  return eventually(5_000, () => leases.every((lease) => lease.lostReason === 'expired' && lease.signal.aborted));
}

/** Returns whether an attempt is refused because an owner holds the lock. */
async function isHeld(client: Client, name: string): Promise<boolean> {
  return (await client.lock(name).tryLock()) === null;
}

describe('expired fixed leases', () => {
  it('are not kept in memory without a release', async () => {
    await using client = await connect('memory://');
    const leases: WeakRef<Lease>[] = [];
    for (let number = 0; number < 2_000; number += 1) {
      leases.push(new WeakRef(await client.lock(`door-${number}`, SHORT_LEASE).lock()));
    }
    const seats = client.semaphore('seats', 1_000, SHORT_LEASE);
    for (let number = 0; number < 1_000; number += 1) {
      leases.push(new WeakRef(await seats.acquire()));
    }
    await eventually(10_000, () => {
      collectGarbage();
      return leases.every((lease) => lease.deref() === undefined);
    });
    const last = await seats.acquire();
    assert.ok(last.isValid);
    await last.release();
  });

  it('end their scope as lost, and a newer lease stays valid', async () => {
    await using client = await connect('memory://');
    const lock = client.lock('door');
    let newer: Lease | undefined;
    const lostError = { name: 'LockLostError', reason: 'expired' };
    const loseAndAcquireAgain = async (lease: Lease) => {
      await lost(lease);
      newer = await lock.lock();
    };
    await assert.rejects(client.using(lock, SHORT_LEASE, loseAndAcquireAgain), lostError);
    assert.ok(newer?.isValid && (await isHeld(client, 'door')));
    assert.equal(await lock.unlock(newer), 'released');
    await assert.rejects(async () => {
      await using lease = await lock.lock(SHORT_LEASE);
      await loseAndAcquireAgain(lease);
    }, lostError);
    assert.ok(newer?.isValid && (await isHeld(client, 'door')));
    assert.equal(await lock.unlock(newer), 'released');
  });

  it('are lost with their inner levels', async () => {
    await using client = await connect('memory://');
    const lock = client.lock('door');
    const outer = await lock.lock({ leaseMs: 1_000 });
    const inner = await lock.lock({ leaseMs: 1_000, within: outer });
    await lost(outer, inner);
    await assert.rejects(lock.lock({ within: inner }), LockLostError);
    await assert.rejects(lock.unlock(inner), NotOwnerError);
    const newer = await lock.lock();
    assert.equal(await inner.release(), 'expired');
    assert.equal(await outer.release(), 'expired');
    assert.ok(newer.isValid && (await isHeld(client, 'door')));
    assert.equal(await lock.unlock(newer), 'released');
  });
});

describe('leases of a closed client', () => {
  it('cannot be unlocked', async () => {
    const client = await connect('memory://');
    const lock = client.lock('door');
    const lease = await lock.lock();
    await client.close();
    assert.equal(lease.lostReason, 'closed');
    await assert.rejects(lock.unlock(lease), ClosedError);
  });

  it('are released by close(), and a later release returns released', async () => {
    const client = await connect('memory://');
    const [first, second, third] = await Promise.all(['a', 'b', 'c'].map((name) => client.lock(name).lock()));
    const closing = client.close();
    assert.equal(await first?.release(), 'released');
    await closing;
    assert.equal(await second?.release(), 'released');
    assert.equal(await second?.release(), 'released');
    const failing = async () => {
      try {
        throw new TypeError('of the body');
      } finally {
        await third?.release();
      }
    };
    await assert.rejects(failing, /of the body/);
  });
});

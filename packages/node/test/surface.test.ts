// Tests of the properties that a program finds on the public objects, independent of the type declarations.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import {
  Client,
  connect,
  InvalidArgumentError,
  Lease,
  Lock,
  LockTimeoutError,
  ReadWriteLock,
  Semaphore,
} from 'steadlock';
import { ROOT } from './package.js';

interface Table {
  readonly groups: { readonly types: { node: string }; readonly concepts: { node: string[] | string }[] }[];
}

/** Names that JavaScript itself looks up. */
const HOOKS = ['constructor', 'toJSON'];

describe('the surface', () => {
  let client: Client;

  before(async () => {
    client = await connect('memory://');
  });

  after(() => client.close());

  it('of an object has no name outside the API table', async () => {
    const table = JSON.parse(readFileSync(join(ROOT, 'ci', 'api', 'api.json'), 'utf8')) as Table;
    const named = new Set(HOOKS);
    for (const { concepts } of table.groups) {
      for (const { node } of concepts) {
        if (Array.isArray(node)) for (const name of node) named.add(name);
      }
    }
    const lease = await client.lock('a').lock();
    const failed = await client
      .lock('a')
      .lock({ waitMs: 0 })
      .catch((error: unknown) => error);
    assert.ok(failed instanceof LockTimeoutError);
    for (const object of [
      client,
      client.lock('a'),
      client.semaphore('s', 1),
      client.readWriteLock('rw'),
      lease,
      failed,
    ]) {
      const found = new Set<string>();
      for (let at: object = object; ![Object.prototype, Error.prototype].includes(at); at = Object.getPrototypeOf(at)) {
        for (const name of Object.getOwnPropertyNames(at)) found.add(name);
      }
      // Every error of JavaScript has these.
      for (const name of ['stack', 'message', 'name']) found.delete(name);
      assert.deepEqual(
        [...found].filter((name) => !named.has(name)),
        [],
        object.constructor.name,
      );
    }
    await lease.release();
  });

  it('has classes for instanceof that cannot be constructed', async () => {
    const lease = await client.lock('b').lock();
    assert.ok(client instanceof Client);
    assert.ok(client.lock('b') instanceof Lock);
    assert.ok(client.semaphore('s', 1) instanceof Semaphore);
    assert.ok(client.readWriteLock('rw') instanceof ReadWriteLock);
    assert.ok(lease instanceof Lease);
    assert.equal(await lease.release(), 'released');
    for (const Given of [Client, Lock, Semaphore, ReadWriteLock, Lease]) {
      const { name } = Given;
      const Class = Given as unknown as new (...given: unknown[]) => unknown;
      for (const given of [[], [client], [{}, 'a', 1]]) {
        assert.throws(
          () => new Class(...given),
          (error) => {
            assert.ok(error instanceof InvalidArgumentError, `${error}`);
            assert.match(error.message, new RegExp(`^${name} cannot be made by new; connect\\(\\) returns a client`));
            return true;
          },
        );
      }
    }
  });

  it('of an error in JSON has all fields', async () => {
    await client.using('c', { leaseMs: 60_000 }, async () => {
      const error = await client
        .lock('c')
        .lock({ waitMs: 0 })
        .catch((failed: LockTimeoutError) => failed);
      assert.ok(error instanceof LockTimeoutError);
      const { message, code, kind, name, lockName } = error;
      const parsed = JSON.parse(JSON.stringify(error)) as Record<string, unknown>;
      assert.deepEqual(
        [parsed.message, parsed.code, parsed.kind, parsed.name, parsed.lockName],
        [message, code, kind, name, lockName],
      );
      assert.ok('holder' in parsed && 'retryable' in parsed);
      assert.equal(parsed.stack, undefined);
    });
  });
});

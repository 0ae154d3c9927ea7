import type { Engine } from './engine.js';
import type { Lock } from './lock.js';
import { Named } from './named.js';

/**
 * A read-write lock, from `client.readWriteLock(name)`: many may hold its read
 * side, or one its write side.
 *
 * A waiting writer keeps new readers out, for two seconds at a time, so that
 * neither side starves. A holder of the write side may take the read side inside
 * it, `lock.read.lock({ within: writing })`, and keeps that when it gives the
 * write side back. The other way round is refused with `InvalidArgumentError`,
 * since it would wait for itself.
 */
export class ReadWriteLock extends Named {
  /** The side that many may hold. Its leases have no token. */
  readonly read: Lock;
  /** The side that one holds alone. */
  readonly write: Lock;

  /** @internal */
  constructor(engine: Engine, read: Lock, write: Lock) {
    super(write?.name, engine);
    this.read = read;
    this.write = write;
  }
}

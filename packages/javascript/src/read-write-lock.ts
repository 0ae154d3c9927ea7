import type { Engine } from './engine.js';
import type { Lock } from './lock.js';
import { Named } from './named.js';

/**
 * A read-write lock, from `client.readWriteLock(name)`: many owners can hold its read side, or one owner its write
 * side.
 *
 * A waiting writer keeps new readers out for two seconds at a time, so neither side starves if reads take less than two
 * seconds. A holder of the write side can acquire the read side inside it, `lock.read.lock({ within: writing })`, and
 * keeps the read side when it releases the write side. A lease of the read side as `within` for the write side is
 * refused with `InvalidArgumentError`, because the caller would wait for its own release.
 */
export class ReadWriteLock extends Named {
  /** The side that many owners can hold. Its leases have no token. */
  readonly read: Lock;
  /** The side that one owner holds alone. */
  readonly write: Lock;

  /** @internal */
  constructor(engine: Engine, read: Lock, write: Lock) {
    super(write?.name, engine);
    this.read = read;
    this.write = write;
  }
}

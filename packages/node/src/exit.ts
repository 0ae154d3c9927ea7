// At the end of the process, what is still held is given back.

import type { Engine } from './engine.js';
import { native } from './native.js';

/**
 * How long a server may keep the process from ending. Half a second is the
 * promise for the whole exit.
 */
const LIMIT_MS = 400;

const open = new Set<Engine>();

/** From now on the leases of this engine are released when the process ends. */
export function releaseAtExit(engine: Engine): void {
  if (open.size === 0) process.on('exit', releaseAll);
  open.add(engine);
}

/** The engine is closed, and holds nothing. */
export function forgetAtExit(engine: Engine): void {
  open.delete(engine);
  if (open.size === 0) process.off('exit', releaseAll);
}

function releaseAll(): void {
  const owed = [...open].map((engine) => engine.owed).filter(({ leases }) => leases.length > 0);
  if (owed.length === 0) return;
  native.releaseAtExit(
    owed.map(({ client }) => client),
    owed.map(({ leases }) => leases),
    LIMIT_MS,
  );
}

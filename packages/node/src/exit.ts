// At the end of the process what is held is released, and what was cancelled is cleaned up.

import { type NativeClient, native } from './native.js';

/**
 * How long servers that do not answer may keep the process from ending. Half a
 * second is the promise for the whole exit.
 */
const LIMIT_MS = 300;

const open = new Set<NativeClient>();

/** From now on this client is closed when the process ends. */
export function closeAtExit(client: NativeClient): void {
  if (open.size === 0) process.on('exit', closeAll);
  open.add(client);
}

/** The client is closed already. */
export function forgetAtExit(client: NativeClient): void {
  open.delete(client);
  if (open.size === 0) process.off('exit', closeAll);
}

/** The client is closed and has answered everything: nothing of it stays open, though it can still be asked. */
export function endCalls(client: NativeClient): void {
  client.endCalls();
}

function closeAll(): void {
  native.closeAtExit([...open], LIMIT_MS);
}

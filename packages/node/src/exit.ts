// At the end of the process, held locks are released, and cancelled requests are cleaned up.

import { type NativeClient, native } from './native.js';

/**
 * How long servers that do not reply can delay the end of the process, in milliseconds. The documented limit for the
 * whole exit is 500 ms.
 */
const LIMIT_MS = 300;

const open = new Set<NativeClient>();

/** Closes this client when the process ends. */
export function closeAtExit(client: NativeClient): void {
  if (open.size === 0) process.on('exit', closeAll);
  open.add(client);
}

/** Removes a client that is closed already. */
export function forgetAtExit(client: NativeClient): void {
  open.delete(client);
  if (open.size === 0) process.off('exit', closeAll);
}

/**
 * Called when a client is closed and has answered every request. Frees its open handles; the client can still answer
 * requests.
 */
export function endCalls(client: NativeClient): void {
  client.endCalls();
}

function closeAll(): void {
  native.closeAtExit([...open], LIMIT_MS);
}

// No host of this package reports its end early enough for a server call. Locks that are held then expire with their
// leases.

import type { NativeClient } from './native.js';

export function closeAtExit(_client: NativeClient): void {}

export function forgetAtExit(_client: NativeClient): void {}

/** Called when a client is closed and has answered every request. Does nothing, because no handle is open. */
export function endCalls(_client: unknown): void {}

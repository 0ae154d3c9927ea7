// The context of the program's calls. Not every host of this package has such contexts, so none is kept here.

import type { NativeLock } from './native.js';

/** @internal A context in which a function can run. */
export interface Context {
  run(call: () => void): void;
  end(): void;
}

const ONLY: Context = { run: (call) => call(), end: () => {} };

/** @internal Returns the only context. */
export function currentContext(): Context {
  return ONLY;
}

/** @internal Returns no place, because this package does not warn of callers that wait for themselves. */
export function callSite(): undefined {
  return undefined;
}

/** @internal Runs the body of a `using()`. */
export function whileHolding<T>(
  _native: unknown,
  _lock: NativeLock,
  _lease: object,
  _place: undefined,
  body: () => T,
): T {
  return body();
}

/** @internal Called when a wait without a bound begins. Does nothing. */
export function watchForSelfWait(_native: unknown, _lock: NativeLock, _name: string): (() => void) | undefined {
  return undefined;
}

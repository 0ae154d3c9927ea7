// Which call of the program something belongs to. What the hosts of this package have in common cannot say it.

/** @internal A context to run a call in. */
export interface Context {
  run(call: () => void): void;
  end(): void;
}

const ONLY: Context = { run: (call) => call(), end: () => {} };

/** @internal The only one that there is. */
export function contextOfNow(): Context {
  return ONLY;
}

/** @internal The place of the program's call that is under way, which nobody reads here. */
export function placeOfNow(): undefined {
  return undefined;
}

/** @internal Runs the body of a `using()`. */
export function whileHolding<T>(
  _native: unknown,
  _address: string,
  _lease: object,
  _place: undefined,
  body: () => T,
): T {
  return body();
}

/** @internal A wait without limit begins. */
export function watchForSelfWait(_native: unknown, _address: string, _name: string): (() => void) | undefined {
  return undefined;
}

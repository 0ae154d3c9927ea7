// Which call of the program something belongs to.

import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';

import type { NativeClient } from './native.js';
import { warn } from './program.js';

/** @internal A context to run a call in. It ends once: until then it counts as open. */
export interface Context {
  run(call: () => void): void;
  end(): void;
}

/** @internal The context that is current now: that of the program's call, not that of an answer. */
export function contextOfNow(): Context {
  const resource = new AsyncResource('SteadlockLease', { requireManualDestroy: true });
  return {
    run: (call) => resource.runInAsyncScope(call),
    end: () => {
      resource.emitDestroy();
    },
  };
}

/** A lock that is held by a `using()` around the present call. */
interface Held {
  readonly native: NativeClient;
  readonly address: string;
  readonly lease: { readonly isValid: boolean };
  /** Where the program called `using()`. */
  readonly place: Place;
  readonly around: Held | undefined;
}

/** A place in the program. The text of a stack is made only if somebody reads it. */
type Place = { readonly stack?: string };

/** Waiting for so long within a hold of the same lock is no accident. */
const SUSPICIOUS_MS = 1_000;
const MOST_WARNINGS = 100;

const held = new AsyncLocalStorage<Held>();
const warned = new Set<string>();

/** @internal The place of the program's call of a function of this package, which calls this at once. */
export function placeOfNow(): Place {
  // A stack of three lines: the usual ten take three times as long, at each `using()`.
  const limit = Error.stackTraceLimit;
  // Not by an assignment, which throws where a program froze what the language brings.
  Reflect.set(Error, 'stackTraceLimit', 3);
  const place = new Error();
  Reflect.set(Error, 'stackTraceLimit', limit);
  return place;
}

/** @internal Runs the body of a `using()`. */
export function whileHolding<T>(
  native: NativeClient,
  address: string,
  lease: { readonly isValid: boolean },
  place: Place,
  body: () => T,
): T {
  return held.run({ native, address, lease, place, around: held.getStore() }, body);
}

/**
 * @internal A wait without limit begins. Warns if it has not ended a second later and a `using()` around it holds what
 * is waited for. Gives what tells that it has ended.
 */
export function watchForSelfWait(native: NativeClient, address: string, name: string): (() => void) | undefined {
  const outer = keptOutBy(native, address);
  if (outer === undefined) return undefined;
  const place: Place = new Error();
  const timer = setTimeout(() => {
    if (outer.lease.isValid) tell(name, lineOf(outer.place), lineOf(place));
  }, SUSPICIOUS_MS).unref();
  return () => clearTimeout(timer);
}

function keptOutBy(native: NativeClient, address: string): Held | undefined {
  for (let at = held.getStore(); at !== undefined; at = at.around) {
    if (at.native === native && at.lease.isValid && native.keepsOut(at.address, address)) return at;
  }
  return undefined;
}

function tell(name: string, outer: string, inner: string): void {
  const lines = `${outer} ${inner}`;
  if (warned.has(lines) || warned.size >= MOST_WARNINGS) return;
  warned.add(lines);
  warn(
    `using() waits for lock ${name} inside of a using() that holds it, and so for itself: it was taken ${outer}, and is ` +
      `waited for ${inner}; pass the outer lease as \`within\`, or give a \`waitMs\``,
    'STEADLOCK_SELF_WAIT',
  );
}

/** The first line of a stack that is not this package's. */
function lineOf({ stack }: Place): string {
  const lines = (stack ?? '').split('\n').slice(1);
  // A bundle that is a module has no such name.
  const own = typeof __dirname === 'undefined' ? 'node_modules/steadlock' : __dirname;
  const line = lines.find((text) => !text.includes(own) && !text.includes('node:internal'));
  return line?.trim() ?? 'at an unknown place';
}

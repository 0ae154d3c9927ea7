// The context of the program's calls: `AsyncLocalStorage`, and the `using()` blocks around a call.

import { AsyncLocalStorage, AsyncResource } from 'node:async_hooks';

import type { NativeClient, NativeLock } from './native.js';
import { warn } from './program.js';

/** @internal A context in which functions can run. `end` must be called once, after the last of them. */
export interface Context {
  run(call: () => void): void;
  end(): void;
}

/** @internal Returns the current context. Called in a call of the program: a reply arrives in another context. */
export function currentContext(): Context {
  const resource = new AsyncResource('SteadlockLease', { requireManualDestroy: true });
  return {
    run: (call) => resource.runInAsyncScope(call),
    end: () => {
      resource.emitDestroy();
    },
  };
}

/** A lock that is held by a `using()` around the current call. */
interface Held {
  readonly native: NativeClient;
  readonly lock: NativeLock;
  readonly lease: { readonly isValid: boolean };
  /** The place where the program called `using()`. */
  readonly site: Place;
  readonly outer: Held | undefined;
}

/** A place in the program. JavaScript makes the text of the stack only when it is read. */
type Place = { readonly stack?: string };

/** A wait of so many milliseconds inside a hold of the same lock is probably a deadlock. */
const SELF_WAIT_MS = 1_000;
const MAX_WARNINGS = 100;

const held = new AsyncLocalStorage<Held>();
const warned = new Set<string>();

/**
 * @internal Returns the place where the program called a function of this package. The called function must call
 * `callSite` directly.
 */
export function callSite(): Place {
  // Three stack lines are enough, and take a third of the time of the usual ten, at each `using()`.
  const limit = Error.stackTraceLimit;
  // An assignment would throw in a program that froze the built-in objects.
  Reflect.set(Error, 'stackTraceLimit', 3);
  const place = new Error();
  Reflect.set(Error, 'stackTraceLimit', limit);
  return place;
}

/** @internal Runs the body of a `using()`. */
export function whileHolding<T>(
  native: NativeClient,
  lock: NativeLock,
  lease: { readonly isValid: boolean },
  site: Place,
  body: () => T,
): T {
  return held.run({ native, lock, lease, site, outer: held.getStore() }, body);
}

/**
 * @internal Called when a wait without a bound begins. Warns if the wait has not ended after a second and a `using()`
 * around it holds the lock. Returns a function to call when the wait has ended.
 */
export function watchForSelfWait(native: NativeClient, wanted: NativeLock, name: string): (() => void) | undefined {
  const outer = blockingHold(native, wanted);
  if (outer === undefined) return undefined;
  const site: Place = new Error();
  const timer = setTimeout(() => {
    if (outer.lease.isValid) warnOnce(name, lineOf(outer.site), lineOf(site));
  }, SELF_WAIT_MS).unref();
  return () => clearTimeout(timer);
}

function blockingHold(native: NativeClient, wanted: NativeLock): Held | undefined {
  for (let at = held.getStore(); at !== undefined; at = at.outer) {
    if (at.native === native && at.lease.isValid && native.keepsOut(at.lock, wanted)) return at;
  }
  return undefined;
}

function warnOnce(name: string, outer: string, inner: string): void {
  const lines = `${outer} ${inner}`;
  if (warned.has(lines) || warned.size >= MAX_WARNINGS) return;
  warned.add(lines);
  warn(
    `using() waits for lock ${name} inside a using() that holds it, so it waits for itself: it was acquired ` +
      `${outer}, and is waited for ${inner}; pass the outer lease as \`within\`, or give a \`waitMs\``,
    'STEADLOCK_SELF_WAIT',
  );
}

/** Returns the first line of a stack that is outside this package. */
function lineOf({ stack }: Place): string {
  const lines = (stack ?? '').split('\n').slice(1);
  // A bundle in the form of an ES module has no `__dirname`.
  const own = typeof __dirname === 'undefined' ? 'node_modules/steadlock' : __dirname;
  const line = lines.find((text) => !text.includes(own) && !text.includes('node:internal'));
  return line?.trim() ?? 'at an unknown place';
}

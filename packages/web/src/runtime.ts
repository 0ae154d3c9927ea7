// The globals and timers of JavaScript hosts, for which no TypeScript library has common types.

interface Process {
  readonly argv?: readonly string[];
  readonly versions?: { readonly node?: string };
  emitWarning?(message: string, options: { type: string; code: string }): void;
  getBuiltinModule?(name: string): unknown;
}

interface Deno {
  readonly version: { readonly deno: string };
  refTimer(id: number): void;
  unrefTimer(id: number): void;
}

interface Globals {
  readonly process?: Process;
  readonly Deno?: Deno;
  readonly Bun?: { readonly version: string };
  readonly location?: { readonly href: string };
  readonly navigator?: { readonly userAgent?: string };
}

/** The globals, each of which can be missing. */
export const globals: Globals = globalThis as never;

/** Whether the host is Cloudflare Workers. There timers belong to a request, and the clock advances only at I/O. */
export const IS_WORKERS = globals.navigator?.userAgent === 'Cloudflare-Workers';

/** The result of `setTimeout`: a number, or an object in Node and Bun. */
export type Timer = ReturnType<typeof setTimeout> | { ref(): void; unref(): void };

/** Sets whether a timer keeps the program alive, on hosts whose programs end by themselves. */
export function keepAlive(timer: Timer, isWanted: boolean): void {
  if (globals.Deno && typeof timer === 'number') {
    if (isWanted) globals.Deno.refTimer(timer);
    else globals.Deno.unrefTimer(timer);
  } else if (typeof timer === 'object') {
    if (isWanted) timer.ref();
    else timer.unref();
  }
}

/** Waits without keeping the program alive. If the signal aborts first, the promise stays pending for ever. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    keepAlive(timer, false);
    signal?.addEventListener('abort', () => clearTimeout(timer));
  });
}

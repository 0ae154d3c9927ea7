// What hosts of JavaScript have in common and no library of TypeScript describes for all of them.

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

/** What is there, of what may be there. */
export const globals: Globals = globalThis as never;

/** Whether it is Cloudflare Workers, whose timers belong to a request, and whose clock stands still between two I/Os. */
export const IS_WORKERS = globals.navigator?.userAgent === 'Cloudflare-Workers';

/** What `setTimeout` gives: a number, or an object of Node and Bun. */
export type Timer = ReturnType<typeof setTimeout> | { ref(): void; unref(): void };

/** A timer keeps the program alive from now on, or does not any more, where programs end by themselves. */
export function keepAlive(timer: Timer, isWanted: boolean): void {
  if (globals.Deno && typeof timer === 'number') {
    if (isWanted) globals.Deno.refTimer(timer);
    else globals.Deno.unrefTimer(timer);
  } else if (typeof timer === 'object') {
    if (isWanted) timer.ref();
    else timer.unref();
  }
}

/** Waits without keeping the program alive; never ends if the signal aborts. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    keepAlive(timer, false);
    signal?.addEventListener('abort', () => clearTimeout(timer));
  });
}

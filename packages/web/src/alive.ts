// Keeps the program alive while somebody waits for an answer, and only then, where programs end by themselves.

import { globals, IS_WORKERS, keepAlive, type Timer } from './runtime.js';

const LONGEST_TIMER_MS = 2 ** 31 - 1;

/** Made at the first wait: some hosts refuse timers before the first request. Then it belongs to nobody's request. */
let timer: Timer | undefined;
let waiting = 0;

/** One more caller waits. */
export function wait(): void {
  waiting += 1;
  if (waiting > 1 || !endsByItself()) return;
  timer ??= setInterval(() => {}, LONGEST_TIMER_MS);
  keepAlive(timer, true);
}

/** A caller has its answer, or went away. */
export function stopWaiting(): void {
  waiting -= 1;
  if (waiting === 0 && timer !== undefined) keepAlive(timer, false);
}

/** Whether the program ends when no timer and no connection is left. */
function endsByItself(): boolean {
  const { Deno, process } = globals;
  return Deno !== undefined || (process?.versions?.node !== undefined && !IS_WORKERS);
}

/** The program has a signal of a lease. Hosts of this package do not say who listens to it. */
export function listenedTo(_signal: AbortSignal): void {}

/** The lease is released or lost. */
export function noMoreListenedTo(_signal: AbortSignal): void {}

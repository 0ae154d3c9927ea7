// Keeps the program alive only while a caller waits for a reply, on hosts whose programs end by themselves.

import { globals, IS_WORKERS, keepAlive, type Timer } from './runtime.js';

const MAX_TIMER_MS = 2 ** 31 - 1;

/**
 * The timer is made at the first wait, because some hosts refuse timers before their first request. Where timers belong
 * to a request (Cloudflare Workers), `endsByItself` is false, and no timer is made.
 */
let timer: Timer | undefined;
let waiters = 0;

/** Called when a caller starts to wait. */
export function addWaiter(): void {
  waiters += 1;
  if (waiters > 1 || !endsByItself()) return;
  timer ??= setInterval(() => {}, MAX_TIMER_MS);
  keepAlive(timer, true);
}

/** Called when a caller has its reply or was cancelled. */
export function removeWaiter(): void {
  waiters -= 1;
  if (waiters === 0 && timer !== undefined) keepAlive(timer, false);
}

/** Whether the program ends when it has no timer and no connection any more. */
function endsByItself(): boolean {
  const { Deno, process } = globals;
  return Deno !== undefined || (process?.versions?.node !== undefined && !IS_WORKERS);
}

/**
 * Called when the program reads the signal of a lease. Does nothing: the hosts of this package do not show whether a
 * signal has listeners.
 */
export function watchSignal(_signal: AbortSignal): void {}

/** Called when the lease is released or lost. Does nothing. */
export function unwatchSignal(_signal: AbortSignal): void {}

// Keeps the process alive only while a caller waits for a reply, or the main module waits at its top level for the loss
// of a lease. Neither an idle client nor a held lock keeps it alive.

import { getEventListeners } from 'node:events';
import { clearInterval, setInterval } from 'node:timers';

const MAX_TIMER_MS = 2 ** 31 - 1;
/** The interval of checks, in milliseconds, in a process that only waits for the loss of a lease. */
const CHECK_MS = 500;

const timer = setInterval(() => {}, MAX_TIMER_MS).unref();
let waiters = 0;

/** Called when a caller starts to wait. */
export function addWaiter(): void {
  if (waiters === 0) timer.ref();
  waiters += 1;
}

/** Called when a caller has its reply or was cancelled. */
export function removeWaiter(): void {
  waiters -= 1;
  if (waiters === 0) timer.unref();
}

/** The signals that the program has read, of leases that it holds. */
const signals = new Set<AbortSignal>();
let checks: NodeJS.Timeout | undefined;

/** Called when the program reads the signal of a held lease. */
export function watchSignal(signal: AbortSignal): void {
  if (signals.size === 0) process.on('beforeExit', stayAliveIfAwaited);
  signals.add(signal);
}

/** Called when the lease is released or lost. */
export function unwatchSignal(signal: AbortSignal): void {
  if (!signals.delete(signal) || signals.size > 0) return;
  process.off('beforeExit', stayAliveIfAwaited);
  stopChecking();
}

/**
 * Called when the event loop is empty. A program that is done ends now, even if it holds locks. But a program whose
 * main module waits at its top level for the loss of a lease must stay alive: Node would end it with exit code 13.
 */
function stayAliveIfAwaited(): void {
  if (!isLossAwaited() || checks !== undefined) return;
  checks = setInterval(() => {
    if (!isLossAwaited()) stopChecking();
  }, CHECK_MS);
}

function stopChecking(): void {
  clearInterval(checks);
  checks = undefined;
}

function isLossAwaited(): boolean {
  return isModuleWaiting() && [...signals].some((signal) => getEventListeners(signal, 'abort').length > 0);
}

/**
 * Whether the main module waits at its top level. Node has the exit listener `handleProcessExit` until the module has
 * run to its end. A Node version without that listener ends the process, as for any other wait without pending events.
 */
function isModuleWaiting(): boolean {
  return process.listeners('exit').some(({ name }) => name === 'handleProcessExit');
}

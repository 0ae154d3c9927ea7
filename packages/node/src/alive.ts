// Keeps the process alive while somebody waits for an answer, and only then:
// neither an idle client nor a lock that is held does.

import { getEventListeners } from 'node:events';
import { clearInterval, setInterval } from 'node:timers';

const LONGEST_TIMER_MS = 2 ** 31 - 1;
/** How often a process is looked at that waits for a lease to be lost and for nothing else. */
const LOOK_MS = 500;

const timer = setInterval(() => {}, LONGEST_TIMER_MS).unref();
let waiting = 0;

/** One more caller waits. */
export function wait(): void {
  if (waiting === 0) timer.ref();
  waiting += 1;
}

/** A caller has its answer, or went away. */
export function stopWaiting(): void {
  waiting -= 1;
  if (waiting === 0) timer.unref();
}

/** The signals that the program has of leases that are held. */
const signals = new Set<AbortSignal>();
let looking: NodeJS.Timeout | undefined;

/** The program has the signal of a lease that is held. */
export function listenedTo(signal: AbortSignal): void {
  if (signals.size === 0) process.on('beforeExit', stayIfAwaited);
  signals.add(signal);
}

/** The lease is released or lost. */
export function noMoreListenedTo(signal: AbortSignal): void {
  if (!signals.delete(signal) || signals.size > 0) return;
  process.off('beforeExit', stayIfAwaited);
  stopLooking();
}

/**
 * The event loop is empty. A program that is done ends now, also with locks that it holds. One whose module waits at its
 * top level for a lease to be lost is not done: Node would end it with code 13.
 */
function stayIfAwaited(): void {
  if (!isLossAwaited() || looking !== undefined) return;
  looking = setInterval(() => {
    if (!isLossAwaited()) stopLooking();
  }, LOOK_MS);
}

function stopLooking(): void {
  clearInterval(looking);
  looking = undefined;
}

function isLossAwaited(): boolean {
  return isModuleWaiting() && [...signals].some((signal) => getEventListeners(signal, 'abort').length > 0);
}

/**
 * Whether the main module waits at its top level. Node has this listener until the module has run to its end. A version
 * without it ends the process, as it does with anything else that no event can come from.
 */
function isModuleWaiting(): boolean {
  return process.listeners('exit').some(({ name }) => name === 'handleProcessExit');
}

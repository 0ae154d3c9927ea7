// Keeps the process alive while somebody waits for an answer, and only then:
// neither an idle client nor a lock that is held does.

import { setInterval } from 'node:timers';

const LONGEST_TIMER_MS = 2 ** 31 - 1;

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

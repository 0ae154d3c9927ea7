import { listenedTo, noMoreListenedTo } from './alive.js';
import { type Context, contextOfNow } from './context.js';
import { errorOf, type LostReason, type SteadlockError } from './errors.js';
import { native } from './native.js';
import type { HoldSpan } from './telemetry.js';

/**
 * What is known of a lease until it is lost or released. It has neither the
 * lease object nor the client, so that both may be garbage while the lock is
 * held.
 */
export class Hold {
  /** What is recorded of it, if anything is. */
  span: HoldSpan | undefined;
  #lost: LostReason | undefined;
  #isForgotten = false;
  #notHeldToTheEnd: LostReason | undefined;
  #controller: AbortController | undefined;
  /** Runs the listeners of its signal as the program first asked for that, in the context of its call. */
  #context: Context | undefined;
  #isReleased = false;

  constructor(
    /** Its number in the engine. */
    readonly id: number,
    readonly lockName: string,
    /** Those of one lock object that are neither released nor lost. */
    readonly siblings: Hold[],
  ) {
    siblings.push(this);
  }

  /** Why it was lost. */
  get lost(): LostReason | undefined {
    return this.#lost;
  }

  /** Whether it was lost and nobody need release it. */
  get isForgotten(): boolean {
    return this.#isForgotten;
  }

  /** Why its release is told to have come too late, if it is. */
  get lostAtRelease(): LostReason | undefined {
    return this.#notHeldToTheEnd;
  }

  /** Aborts when it is lost. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#lost !== undefined) this.#controller.abort(this.lostError(this.#lost));
      else if (!this.#isReleased) {
        this.#context = contextOfNow();
        listenedTo(this.#controller.signal);
      }
    }
    return this.#controller.signal;
  }

  /** The engine told that it is lost. */
  onLost(reason: LostReason, isForgotten: boolean): void {
    this.#lost = reason;
    this.#isForgotten = isForgotten;
    // From the start: the lease that was granted first expires first.
    this.#leave(this.siblings.indexOf(this));
    this.span?.end('lost', reason);
    const controller = this.#controller;
    if (controller === undefined) return;
    const abort = () => controller.abort(this.lostError(reason));
    const context = this.#context;
    if (context === undefined) {
      abort();
      return;
    }
    this.#endListening();
    try {
      context.run(abort);
    } finally {
      context.end();
    }
  }

  /** It is about to be released, and was lost before for `reason`, if for any. */
  onRelease(reason: LostReason | null): void {
    this.#isReleased = true;
    this.#lost ??= reason ?? undefined;
    this.#context?.end();
    this.#endListening();
    // From the end: what was taken last is released first.
    this.#leave(this.siblings.lastIndexOf(this));
  }

  /** Its release was answered: it was lost for `reason`, if it was. */
  onReleased(reason: LostReason | undefined): void {
    this.#notHeldToTheEnd = reason;
  }

  lostError(reason: LostReason, operation: 'hold' | 'release' = 'hold'): SteadlockError {
    return errorOf(native.lostError(this.lockName, reason, this.#isForgotten, operation === 'release'));
  }

  /** Nobody is told by its signal any more. */
  #endListening(): void {
    if (this.#context === undefined || this.#controller === undefined) return;
    this.#context = undefined;
    noMoreListenedTo(this.#controller.signal);
  }

  #leave(place: number): void {
    if (place >= 0) this.siblings.splice(place, 1);
  }
}

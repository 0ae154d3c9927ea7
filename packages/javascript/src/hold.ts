import { type Context, currentContext } from './context.js';
import { errorOf, type LostReason, type SteadlockError } from './errors.js';
import { unwatchSignal, watchSignal } from './keep-alive.js';
import { native } from './native.js';
import type { HoldSpan } from './telemetry.js';

/**
 * The state of a lease. It refers neither to the lease object nor to the client, so both can be garbage while the lock
 * is held.
 */
export class Hold {
  /** The span of the hold, if telemetry records it. */
  span: HoldSpan | undefined;
  #lost: LostReason | undefined;
  #isForgotten = false;
  #lossFoundByRelease: LostReason | undefined;
  #controller: AbortController | undefined;
  /** The context in which the program first read `signal`. The listeners of the signal run in it. */
  #context: Context | undefined;
  #isReleased = false;

  constructor(
    /** The number of the lease in the engine. */
    readonly id: number,
    readonly lockName: string,
    /** The holds of the same lock object that are neither released nor lost. */
    readonly siblings: Hold[],
  ) {
    siblings.push(this);
  }

  /** The reason for the loss. */
  get lost(): LostReason | undefined {
    return this.#lost;
  }

  /**
   * Whether the lease was lost and needs no release, because the engine has forgotten it: a fixed lease, or one of a
   * closed client.
   */
  get isForgotten(): boolean {
    return this.#isForgotten;
  }

  /** The reason for a loss that the release reported, if it reported one. */
  get lostAtRelease(): LostReason | undefined {
    return this.#lossFoundByRelease;
  }

  /** Aborts when the lease is lost. */
  get signal(): AbortSignal {
    if (this.#controller === undefined) {
      this.#controller = new AbortController();
      if (this.#lost !== undefined) this.#controller.abort(this.lostError(this.#lost));
      else if (!this.#isReleased) {
        this.#context = currentContext();
        watchSignal(this.#controller.signal);
      }
    }
    return this.#controller.signal;
  }

  /** Handles the engine's event that the lease is lost. */
  onLost(reason: LostReason, isForgotten: boolean): void {
    this.#lost = reason;
    this.#isForgotten = isForgotten;
    // Searches from the start: a lease that was granted first usually expires first.
    this.#removeSibling(this.siblings.indexOf(this));
    this.span?.end('lost', reason);
    const controller = this.#controller;
    if (controller === undefined || this.#isReleased) return;
    const abort = () => controller.abort(this.lostError(reason));
    const context = this.#context;
    if (context === undefined) {
      abort();
      return;
    }
    this.#unwatchSignal();
    try {
      context.run(abort);
    } finally {
      context.end();
    }
  }

  /** Called before the release. `reason` is the reason for an earlier loss, if the lease was lost. */
  onRelease(reason: LostReason | null): void {
    this.#isReleased = true;
    this.#lost ??= reason ?? undefined;
    this.#context?.end();
    this.#unwatchSignal();
    // Searches from the end: the last lease that was granted is usually released first.
    this.#removeSibling(this.siblings.lastIndexOf(this));
  }

  /** Handles the reply to the release. `reason` is the reason for a loss that the release found. */
  onReleased(reason: LostReason | undefined): void {
    this.#lossFoundByRelease = reason;
  }

  lostError(reason: LostReason, operation: 'hold' | 'release' = 'hold'): SteadlockError {
    return errorOf(native.lostError(this.lockName, reason, this.#isForgotten, operation === 'release'));
  }

  /** Called when the process need not stay alive for the signal any more. */
  #unwatchSignal(): void {
    if (this.#context === undefined || this.#controller === undefined) return;
    this.#context = undefined;
    unwatchSignal(this.#controller.signal);
  }

  #removeSibling(at: number): void {
    if (at >= 0) this.siblings.splice(at, 1);
  }
}

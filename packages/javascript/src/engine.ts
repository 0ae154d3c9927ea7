// The layer between the promises of JavaScript and the native client.
//
// Each request goes to the native client at once. The replies come back in batches, by the inbox.

import { errorOf, type Holder, type LostReason } from './errors.js';
import type { Hold } from './hold.js';
import { Failure, Inbox, type Settle } from './inbox.js';
import type { ClientOptions, NativeClient, NativeFailure, NativeLock, Opening } from './native.js';
import { Observations } from './observations.js';
import type { Telemetry } from './telemetry.js';
import { CONNECT, words } from './words.js';

/** The outcome of a release: see `Lease.release`. */
export type ReleaseOutcome = 'released' | 'expired' | 'stolen' | 'unknown';

/** Reports to the inbox that its engine is garbage: no caller can reach the client any more. */
const droppedEngines = new FinalizationRegistry<Inbox>((inbox) => inbox.dropped());

/**
 * The part of a client that the client object, its lock objects and its leases share. It lives as long as any of them.
 */
export class Engine {
  /** The events of the client, for its listeners. */
  readonly observations = new Observations();
  /** Records the acquisitions and leases, if the program has asked for that. */
  telemetry: Telemetry | undefined;
  readonly #inbox: Inbox;
  #closed: Promise<void> | undefined;

  private constructor(inbox: Inbox) {
    this.#inbox = inbox;
    inbox.setObservations(this.observations);
  }

  /**
   * Opens a client. Connects, unless the client is lazy: then the first use connects. Rejects with the error of the
   * options or of connecting.
   */
  static async open(options: ClientOptions, opening: Opening): Promise<Engine> {
    const inbox = Inbox.open(options, opening);
    if (inbox instanceof Failure) throw inbox.error();
    const engine = new Engine(inbox);
    const failure = options.lazy ? undefined : await engine.#reply(CONNECT, (_a, _b, failure) => failure);
    if (failure) {
      // Without the close, the native client would continue its attempts to connect.
      inbox.native.close();
      inbox.closed();
      throw failure.error();
    }
    inbox.connected();
    droppedEngines.register(engine, inbox, engine);
    return engine;
  }

  /** The inbox, which has the native client and the pending requests. A lock object submits its acquisitions there. */
  get inbox(): Inbox {
    return this.#inbox;
  }

  /** Releases a lease. */
  async release(hold: Hold): Promise<ReleaseOutcome> {
    const answer = await this.#reply(this.#native.release(hold.id), (outcome, lost, failure) => {
      this.#inbox.released(hold.id);
      // After an error the core retries in the background, as after a timeout: the outcome is unknown.
      const { outcomes, reasons } = words();
      hold.span?.end(failure ? 'unknown' : (outcomes[outcome] as ReleaseOutcome));
      if (failure) return failure;
      hold.onReleased(reasons[lost] as LostReason | undefined);
      return outcomes[outcome] as ReleaseOutcome;
    });
    if (answer instanceof Failure) throw answer.error();
    return answer;
  }

  /** Extends a lease. Returns the failure, if there is one. */
  extend(lease: number, byMs: number | undefined): Promise<Failure | undefined> {
    return this.#reply(this.#native.extend(lease, byMs), (_a, _b, failure) => failure);
  }

  /** Asks the server for the holder of a lock. */
  holder(lock: NativeLock): Promise<Holder | null> {
    return this.#ask(this.#native.inspect(lock), (_held, _free, holder) => holder ?? null);
  }

  /**
   * Asks the server how many permits of a semaphore are free. Returns `undefined` while no permit is held, because the
   * server then has no limit.
   */
  freePermits(lock: NativeLock): Promise<number | undefined> {
    return this.#ask(this.#native.inspect(lock), (_held, free) => (free < 0 ? undefined : free));
  }

  /** Removes the record of a lock. Returns whether the lock was held. */
  forceRelease(lock: NativeLock): Promise<boolean> {
    return this.#ask(this.#native.forceRelease(lock), (wasHeld) => wasHeld === 1);
  }

  /** Changes a semaphore's limit to that of `semaphore`. Returns whether any permit was held. */
  setLimit(semaphore: NativeLock): Promise<boolean> {
    return this.#ask(this.#native.setLimit(semaphore), (wasHeld) => wasHeld === 1);
  }

  remainingMs(lease: number): number {
    return this.#native.remainingMs(lease);
  }

  isValid(lease: number): boolean {
    return this.#native.isValid(lease);
  }

  lostReason(lease: number): LostReason | null {
    return (words().reasons[this.#native.lostReason(lease)] as LostReason | undefined) ?? null;
  }

  /** Returns the metrics in Prometheus' text format. */
  metrics(): string {
    return textOf(this.#native.metrics());
  }

  /** Returns the metrics group of a lock of this name. */
  metricsGroup(name: string): string {
    return textOf(this.#native.metricsGroup(name));
  }

  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Closes the client. A second call returns the promise of the first. */
  close(): Promise<void> {
    this.#closed ??= this.#reply(this.#native.close(), () => {
      droppedEngines.unregister(this);
      this.#inbox.closed();
    });
    return this.#closed;
  }

  /** Resolves with the reply to a request, or rejects with its error. */
  async #ask<T>(request: number, read: (a: number, b: number, holder: Holder | undefined) => T): Promise<T> {
    const answer = await this.#reply<T | Failure>(request, (a, b, failure, holder) => failure ?? read(a, b, holder));
    if (answer instanceof Failure) throw answer.error();
    return answer as T;
  }

  #reply<T>(request: number, read: (...answer: Parameters<Settle>) => T): Promise<T> {
    return new Promise((resolve) => {
      this.#inbox.await(request, (...answer) => resolve(read(...answer)));
    });
  }

  get #native(): NativeClient {
    return this.#inbox.native;
  }
}

function textOf(answer: string | NativeFailure): string {
  if (typeof answer !== 'string') throw errorOf(answer);
  return answer;
}

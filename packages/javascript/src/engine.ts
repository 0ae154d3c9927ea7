// Between the promises of JavaScript and the native client.
//
// Requests go in one by one and at once. Their answers come in batches, by the
// inbox.

import { errorOf, type Holder, type LostReason } from './errors.js';
import type { Hold } from './hold.js';
import { Failure, Inbox, type Settle } from './inbox.js';
import type { ClientOptions, NativeClient, NativeFailure, Opening } from './native.js';
import { Observations } from './observations.js';
import type { Telemetry } from './telemetry.js';
import { CONNECT, words } from './words.js';

/** How a release ended: see `Lease.release`. */
export type ReleaseOutcome = 'released' | 'expired' | 'stolen' | 'unknown';

/** Frees a client once nobody can ask for anything of it. */
const dropped = new FinalizationRegistry<Inbox>((inbox) => inbox.dropped());

/** A client, as long as anybody has something of it: itself, a lock object or a lease. */
export class Engine {
  /** What those hear who listen to the client. */
  readonly observations = new Observations();
  /** Who records its acquisitions and leases, if anybody does. */
  telemetry: Telemetry | undefined;
  readonly #inbox: Inbox;
  #closed: Promise<void> | undefined;

  private constructor(inbox: Inbox) {
    this.#inbox = inbox;
    inbox.tellObservations(this.observations);
  }

  /** Connects, unless that is for the first use. Rejects with the error of connecting. */
  static async open(options: ClientOptions, opening: Opening): Promise<Engine> {
    const inbox = Inbox.open(options, opening);
    if (inbox instanceof Failure) throw inbox.error();
    const engine = new Engine(inbox);
    const failure = options.lazy ? undefined : await engine.#answer(CONNECT, (_a, _b, failure) => failure);
    if (failure) {
      // It would try on.
      inbox.native.close();
      inbox.closed();
      throw failure.error();
    }
    inbox.connected();
    dropped.register(engine, inbox, engine);
    return engine;
  }

  /** Where acquisitions wait. A lock asks for them itself. */
  get inbox(): Inbox {
    return this.#inbox;
  }

  /** Gives a lease back. */
  async release(hold: Hold): Promise<ReleaseOutcome> {
    const answer = await this.#answer(this.#native.release(hold.id), (outcome, lost, failure) => {
      this.#inbox.released(hold.id);
      // After a failure the library goes on trying, as after no answer in time.
      const { outcomes, reasons } = words();
      hold.span?.end(failure ? 'unknown' : (outcomes[outcome] as ReleaseOutcome));
      if (failure) return failure;
      hold.onReleased(reasons[lost] as LostReason | undefined);
      return outcomes[outcome] as ReleaseOutcome;
    });
    if (answer instanceof Failure) throw answer.error();
    return answer;
  }

  /** Makes a lease last longer, or says why not. */
  extend(lease: number, byMs: number | undefined): Promise<Failure | undefined> {
    return this.#answer(this.#native.extend(lease, byMs), (_a, _b, failure) => failure);
  }

  /** Who holds the lock of this address, by the server's answer. */
  holder(lock: string): Promise<Holder | null> {
    return this.#ask(this.#native.inspect(lock), (_held, _free, holder) => holder ?? null);
  }

  /** How many permits of a semaphore are free, by the server's answer; `undefined` if none is held. */
  freePermits(lock: string): Promise<number | undefined> {
    return this.#ask(this.#native.inspect(lock), (_held, free) => (free < 0 ? undefined : free));
  }

  /** Takes a lock, by its address, from its holder; says whether there was one. */
  forceRelease(lock: string): Promise<boolean> {
    return this.#ask(this.#native.forceRelease(lock), (wasHeld) => wasHeld === 1);
  }

  /** Changes a semaphore's limit to that of the address; says whether any permit was held. */
  setLimit(semaphore: string): Promise<boolean> {
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

  /** What was counted, for Prometheus. */
  metrics(): string {
    return textOf(this.#native.metrics());
  }

  /** The group that a lock of this name counts for. */
  metricsGroup(name: string): string {
    return textOf(this.#native.metricsGroup(name));
  }

  get isClosed(): boolean {
    return this.#closed !== undefined;
  }

  /** Closes, once. */
  close(): Promise<void> {
    this.#closed ??= this.#answer(this.#native.close(), () => {
      dropped.unregister(this);
      this.#inbox.closed();
    });
    return this.#closed;
  }

  /** The answer, or the error of the request. */
  async #ask<T>(request: number, read: (a: number, b: number, holder: Holder | undefined) => T): Promise<T> {
    const answer = await this.#answer<T | Failure>(request, (a, b, failure, holder) => failure ?? read(a, b, holder));
    if (answer instanceof Failure) throw answer.error();
    return answer as T;
  }

  #answer<T>(request: number, settled: (...answer: Parameters<Settle>) => T): Promise<T> {
    return new Promise((resolve) => {
      this.#inbox.await(request, (...answer) => resolve(settled(...answer)));
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

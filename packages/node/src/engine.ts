// Between the promises of JavaScript and the native client.
//
// Requests go in one by one and at once. Answers come in batches: the native
// library wakes this thread once, `#drain` copies all queued events into one
// buffer of numbers, and settles their promises. See `bindings/node/src/rows.rs`
// for the rows.

import { stopWaiting, wait } from './alive.js';
import { clientOptions, type Servers } from './arguments.js';
import { errorOf, type Holder, type LostReason } from './errors.js';
import { closeAtExit, forgetAtExit } from './exit.js';
import { type NativeClient, type NativeFailure, type NativeHolder, native } from './native.js';
import { NumberTable } from './number-table.js';
import type { ConnectOptions } from './options.js';

/** How a release ended: see `Lease.release`. */
export type ReleaseOutcome = 'released' | 'expired' | 'stolen' | 'unknown';

/** A lease as the engine sees it. */
export interface Held {
  /** The lease is lost. Called once. `isForgotten` says that nobody need release it. */
  onLost(reason: LostReason, isForgotten: boolean): void;
}

/** What an acquisition asks for. */
export interface Acquisition {
  /** The lock's address. */
  readonly lock: string;
  readonly waitMs: number | undefined;
  readonly leaseMs: number | undefined;
  readonly renew: boolean;
  readonly maxHoldMs: number | undefined;
  readonly within: number | undefined;
  readonly token: boolean;
}

/** A refusal or an error, before the class of its kind is made. */
export class Failure {
  constructor(
    readonly native: NativeFailure,
    /** The lock was another's for as long as the caller was ready to wait. */
    readonly refused: boolean,
  ) {}

  /** Made where a caller awaits it, so that its stack names the caller. `reason` is why its lease was lost, if it was. */
  error(reason?: LostReason | null): Error {
    const { kind, message, operation, lock, holder } = this.native;
    const details = { lockName: lock, operation, holder: holder && holderOf(holder), reason: reason ?? undefined };
    return errorOf(kind, message, details);
  }
}

/** What is called with the row that answers a request. */
type Settle = (a: number, b: number, failure: Failure | undefined, holder: Holder | undefined) => void;

const vocabulary = native.vocabulary();
const OUTCOMES = vocabulary.outcomes as ReleaseOutcome[];
const REASONS = vocabulary.reasons as LostReason[];
const WIDTH = vocabulary.width;
const GRANTED = vocabulary.codes.indexOf('granted');
const REFUSED = vocabulary.codes.indexOf('refused');
const STATE = vocabulary.codes.indexOf('state');
const FAILED = vocabulary.codes.indexOf('failed');
const LOST = vocabulary.codes.indexOf('lost');

/** The request number of connecting. */
const CONNECT = 0;
const ROWS = 128;

export class Engine {
  readonly #native: NativeClient;
  readonly #rows = new Float64Array(ROWS * WIDTH);
  readonly #pending = new NumberTable<Settle>();
  /** Every lease from its grant until it is lost, or its release is answered. */
  readonly #held = new NumberTable<Held>();
  #closed: Promise<void> | undefined;

  private constructor(client: NativeClient) {
    this.#native = client;
  }

  /** Connects. Rejects with the error of connecting. */
  static async open(servers: Servers, options: ConnectOptions | undefined): Promise<Engine> {
    let engine: Engine | undefined;
    const client = native.open(clientOptions(servers, options), () => {
      if (engine) engine.#drain();
    });
    if (!('drain' in client)) throw new Failure(client, false).error();
    engine = new Engine(client);
    const failure = await engine.#answer(CONNECT, (_a, _b, failure) => failure);
    if (failure) throw failure.error();
    closeAtExit(client);
    return engine;
  }

  /**
   * Takes a lock. `grant` makes its lease, in the very batch that grants it, so
   * that a loss that follows finds it. Throws or rejects if `signal` aborts.
   */
  acquire<L extends Held>(
    wanted: Acquisition,
    grant: (id: number, token: number) => L,
    signal: AbortSignal | undefined,
  ): Promise<L | Failure> {
    signal?.throwIfAborted();
    const { lock, waitMs, leaseMs, renew, maxHoldMs, within, token } = wanted;
    const request = this.#native.acquire(lock, waitMs, leaseMs, renew, maxHoldMs, within, token);
    const settled = (id: number, token: number, failure: Failure | undefined): L | Failure => {
      if (failure) return failure;
      const lease = grant(id, token);
      this.#held.set(id, lease);
      return lease;
    };
    return signal ? this.#abortable(request, settled, signal) : this.#answer(request, settled);
  }

  /** Gives a lease back. */
  async release(lease: number): Promise<ReleaseOutcome> {
    const answer = await this.#answer(this.#native.release(lease), (outcome, _b, failure) => {
      this.#held.delete(lease);
      return failure ?? (OUTCOMES[outcome] as ReleaseOutcome);
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

  /** Takes the lock of this address from whoever holds it; says whether anybody did. */
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
    return REASONS[this.#native.lostReason(lease)] ?? null;
  }

  /** Closes, once. */
  close(): Promise<void> {
    this.#closed ??= this.#answer(this.#native.close(), () => {
      this.#held.clear();
      forgetAtExit(this.#native);
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
      this.#await(request, (...answer) => resolve(settled(...answer)));
    });
  }

  #abortable<T>(
    request: number,
    settled: (a: number, b: number, failure: Failure | undefined) => T,
    signal: AbortSignal,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#forget(request);
        this.#native.cancel(request);
        reject(signal.reason);
      };
      signal.addEventListener('abort', onAbort, { once: true });
      this.#await(request, (a, b, failure) => {
        signal.removeEventListener('abort', onAbort);
        resolve(settled(a, b, failure));
      });
    });
  }

  #await(request: number, settle: Settle): void {
    this.#pending.set(request, settle);
    wait();
  }

  #forget(request: number): void {
    if (this.#pending.delete(request)) stopWaiting();
  }

  #drain(): void {
    const rows = this.#rows;
    let count: number;
    do {
      count = this.#native.drain(rows);
      for (let at = 0; at < count * WIDTH; at += WIDTH) {
        this.#take(rows[at] as number, rows[at + 1] as number, rows[at + 2] as number, rows[at + 3] as number);
      }
    } while (count === ROWS);
  }

  #take(code: number, id: number, a: number, b: number): void {
    if (code === LOST) {
      const lease = this.#held.get(id);
      this.#held.delete(id);
      lease?.onLost(REASONS[a] as LostReason, b === 1);
      return;
    }
    const failure = code === FAILED || code === REFUSED ? this.#nextFailure(code === REFUSED) : undefined;
    const holder = code === STATE && a === 1 ? this.#nextHolder() : undefined;
    const settle = this.#pending.get(id);
    if (settle) {
      this.#forget(id);
      settle(a, b, failure, holder);
    } else if (code === GRANTED) {
      // Its caller aborted in this very batch.
      this.#native.release(a);
    }
  }

  #nextFailure(refused: boolean): Failure {
    return new Failure(this.#native.nextFailure() as NativeFailure, refused);
  }

  #nextHolder(): Holder {
    return holderOf(this.#native.nextHolder() as NativeHolder);
  }
}

function holderOf({ owner, remainingMs }: NativeHolder): Holder {
  return { owner, remainingMs: remainingMs ?? null };
}

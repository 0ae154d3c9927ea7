// Receives the events of the native library.
//
// Events come in batches: the native library wakes this thread once, and `drain` copies the queued events into a buffer
// of numbers, a row for each, and settles the promises. See `bindings/javascript/src/rows.rs` for the rows.
//
// An inbox does not refer to its engine, but users reach the inbox only through the engine. When the engine is garbage,
// the program cannot make a request any more. The native client is then closed as soon as it holds no lock and no
// request is pending.

import { whenAborted } from './aborts.js';
import { reasonOf } from './arguments.js';
import { errorOf, type Holder, holderOf, type LostReason } from './errors.js';
import { closeAtExit, endCalls, forgetAtExit } from './exit.js';
import type { Hold } from './hold.js';
import { HOLD } from './internals.js';
import { addWaiter, removeWaiter } from './keep-alive.js';
import {
  type ClientOptions,
  type NativeClient,
  type NativeFailure,
  type NativeHolder,
  native,
  type Opening,
} from './native.js';
import { NumberTable } from './number-table.js';
import type { Observations } from './observations.js';
import { warn } from './program.js';
import type { GrantedLease, WaitSpan } from './telemetry.js';
import { codes, words } from './words.js';

/** A refusal or an error of the core, from which the error object is made later. */
export class Failure {
  constructor(
    readonly native: NativeFailure,
    /** Whether the acquisition was refused: it timed out while another owner held the lock, or it was skipped. */
    readonly refused: boolean,
  ) {}

  /** Whether the lock was skipped. */
  get skipped(): boolean {
    return this.native.skipped;
  }

  /** Makes the error object. Called where a caller awaits the result, so that the stack names the caller. */
  error(): Error {
    return errorOf(this.native);
  }
}

/** A function that gets the reply to a request: the columns `a` and `b` of its row, and the row's failure or holder. */
export type Settle = (a: number, b: number, failure: Failure | undefined, holder: Holder | undefined) => void;

const ROWS = 128;

/**
 * Reports lost holds to the native library when they are garbage. Refers to clients only weakly, so that a client can
 * be garbage too.
 */
const forgottenHolds = new FinalizationRegistry<{ readonly client: WeakRef<NativeClient>; readonly lease: number }>(
  ({ client, lease }) => client.deref()?.forget(lease),
);

export class Inbox {
  readonly native: NativeClient;
  readonly #client: WeakRef<NativeClient>;
  readonly #listener: Listener;
  readonly #width = words().width;
  readonly #rows = new Float64Array(ROWS * this.#width);
  /** The position of the next row, and the end of the drained rows. */
  #at = 0;
  #end = 0;
  readonly #codes = codes();
  readonly #pending = new NumberTable<Settle>();
  #waiting = 0;
  /** Every hold, from its grant until it is lost or its release is answered. */
  readonly #holds = new NumberTable<Hold>();
  /** The observations of the engine. The reference is weak, because the program's listeners can refer to the client. */
  #observations: WeakRef<Observations> | undefined;
  #isOpen = true;
  #isDropped = false;
  #hasWarned = false;

  private constructor(client: NativeClient, listener: Listener) {
    this.native = client;
    this.#client = new WeakRef(client);
    this.#listener = listener;
    listener.listen(this);
  }

  /** Opens a native client. Unless it is lazy, it starts to connect, and the result is the reply to `CONNECT`. */
  static open(options: ClientOptions, opening: Opening): Inbox | Failure {
    const listener = new Listener();
    const client = native.open(options, () => listener.inbox?.drain(), opening);
    return 'drain' in client ? new Inbox(client, listener) : new Failure(client, false);
  }

  /** Sets the receiver of observations. */
  setObservations(observations: Observations): void {
    this.#observations = new WeakRef(observations);
  }

  /** Called when the client is connected, or is lazy. From then on it is closed when the process ends. */
  connected(): void {
    closeAtExit(this.native);
  }

  /** Called when the client is closed. From then on the inbox can be garbage while no request is pending. */
  closed(): void {
    this.#holds.clear();
    this.#isOpen = false;
    forgetAtExit(this.native);
    this.#listen();
    this.#endIfAnswered();
  }

  /** Called when the engine is garbage. */
  dropped(): void {
    this.#isDropped = true;
    this.#freeIfDone();
  }

  /** Calls `settle` with the answer to a request. */
  await(request: number, settle: Settle): void {
    this.#pending.set(request, settle);
    this.#waiting += 1;
    this.#listen();
    addWaiter();
    // A closed client answers at once and sends no wake-up.
    if (!this.#isOpen) queueMicrotask(() => this.drain());
  }

  /**
   * Waits for the result of an acquisition. `grant` makes the lease object while the batch with the grant is drained,
   * so that a loss in the same batch finds it. Rejects if `signal` aborts. `span` gets the outcome.
   */
  lease<L extends GrantedLease & { readonly [HOLD]: Hold }>(
    request: number,
    grant: (id: number, token: number) => L,
    signal: AbortSignal | undefined,
    span: WaitSpan | undefined,
  ): Promise<L | Failure> {
    return new Promise((resolve, reject) => {
      let stopListening: (() => void) | undefined;
      this.await(request, (id, token, failure) => {
        stopListening?.();
        if (failure) {
          span?.failed(failure.native);
          return resolve(failure);
        }
        const lease = grant(id, token);
        this.#holds.set(id, lease[HOLD]);
        lease[HOLD].span = span?.granted(lease);
        resolve(lease);
      });
      if (signal === undefined) return;
      const cancel = (reason: unknown) => {
        this.#forget(request);
        this.native.cancel(request);
        span?.cancelled();
        reject(reason);
      };
      try {
        stopListening = whenAborted(signal, () => cancel(reasonOf(signal)));
      } catch (error) {
        // A custom signal can throw here. The request must end then, because its caller could not cancel it later.
        cancel(error);
      }
    });
  }

  /** Removes the hold of a released lease. */
  released(lease: number): void {
    this.#holds.delete(lease);
  }

  /**
   * Takes all events of the native library. A listener of a signal can run the event loop, which calls this method
   * again before the first call has returned. Rows are then still handled in their order, and each once.
   */
  drain(): void {
    const rows = this.#rows;
    let mayBeMore = true;
    while (this.#at < this.#end || mayBeMore) {
      if (this.#at === this.#end) {
        this.#at = 0;
        this.#end = this.native.drain(rows) * this.#width;
        mayBeMore = this.#end === rows.length;
        continue;
      }
      const at = this.#at;
      this.#at += this.#width;
      try {
        this.#handleRow(rows[at] as number, rows[at + 1] as number, rows[at + 2] as number, rows[at + 3] as number);
      } catch (error) {
        // The program can have replaced `AbortController` by one that throws. The following rows must be handled all
        // the same.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    if (this.#isDropped) this.#freeIfDone();
  }

  #handleRow(code: number, id: number, a: number, b: number): void {
    const codes = this.#codes;
    if (code === codes.lost) {
      const hold = this.#holds.get(id);
      this.#holds.delete(id);
      if (hold === undefined) return;
      forgottenHolds.register(hold, { client: this.#client, lease: id });
      hold.onLost(words().reasons[a] as LostReason, b === 1);
      return;
    }
    if (code === codes.observed) {
      const observations = this.#observations?.deref();
      const observation = this.native.nextObservation(observations?.hasListeners ?? false);
      if (observation) observations?.emit(observation);
      return;
    }
    const failure =
      code === codes.failed || code === codes.refused ? this.#nextFailure(code === codes.refused) : undefined;
    const holder = code === codes.state && a === 1 ? this.#nextHolder() : undefined;
    const settle = this.#pending.get(id);
    if (settle) {
      this.#forget(id);
      settle(a, b, failure, holder);
    } else if (code === codes.granted) {
      // The caller's signal aborted while this batch was drained, after the grant was queued.
      this.native.release(a);
    }
  }

  /** Removes a request whose caller has its reply or was cancelled. */
  #forget(request: number): void {
    if (!this.#pending.delete(request)) return;
    this.#waiting -= 1;
    this.#listen();
    removeWaiter();
    this.#endIfAnswered();
  }

  /**
   * Calls `endCalls` for a closed client when no request is pending. Requests that were made during the close are
   * answered after the close itself.
   */
  #endIfAnswered(): void {
    if (!this.#isOpen && this.#waiting === 0) endCalls(this.native);
  }

  #nextFailure(refused: boolean): Failure {
    return new Failure(this.native.nextFailure() as NativeFailure, refused);
  }

  #nextHolder(): Holder {
    return holderOf(this.native.nextHolder() as NativeHolder);
  }

  #listen(): void {
    this.#listener.listen(this.#isOpen || this.#waiting > 0 ? this : undefined);
  }

  #freeIfDone(): void {
    if (!this.#isOpen || this.#waiting > 0) return;
    const holds = [...this.#holds.values()];
    if (holds.length === 0) {
      this.native.close();
      this.closed();
      return;
    }
    const held = holds.filter(({ id }) => this.native.isValid(id)).length;
    if (held > 0 && !this.#hasWarned) {
      this.#hasWarned = true;
      warnDropped(held);
    }
  }
}

/**
 * The target of wake-ups, to which the native library refers. The listener keeps the inbox alive only while the client
 * is open or a request is pending.
 */
class Listener {
  #strong: Inbox | undefined;
  #weak: WeakRef<Inbox> | undefined;

  get inbox(): Inbox | undefined {
    return this.#strong ?? this.#weak?.deref();
  }

  listen(inbox: Inbox | undefined): void {
    // The weak reference still serves wake-ups, for as long as the program can reach the inbox.
    if (inbox === undefined && this.#strong !== undefined) this.#weak = new WeakRef(this.#strong);
    this.#strong = inbox;
  }
}

function warnDropped(held: number): void {
  const locks = held === 1 ? '1 lock, which stays' : `${held} locks, which stay`;
  warn(
    `a Steadlock client was dropped while it held ${locks} held until the process ends; ` +
      'keep its leases and release them, or close the client',
    'STEADLOCK_CLIENT_DROPPED',
  );
}

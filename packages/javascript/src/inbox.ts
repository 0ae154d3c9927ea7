// What the native library tells JavaScript.
//
// Answers come in batches: the native library wakes this thread once, `#drain`
// copies all queued events into one buffer of numbers, and settles their
// promises. See `bindings/javascript/src/rows.rs` for the rows.
//
// An inbox does not know its engine, through which users reach it. When the
// engine is garbage, nobody can ask for anything any more, and the native client
// is freed, unless it still holds a lock.

import { whenAborted } from './aborts.js';
import { stopWaiting, wait } from './alive.js';
import { reasonOf } from './arguments.js';
import { errorOf, type Holder, holderOf, type LostReason } from './errors.js';
import { closeAtExit, endCalls, forgetAtExit } from './exit.js';
import type { Hold } from './hold.js';
import { HOLD } from './internals.js';
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

/** A refusal or an error, before the class of its kind is made. */
export class Failure {
  constructor(
    readonly native: NativeFailure,
    /** Another owner held the lock for as long as the caller waited, or it was skipped. */
    readonly refused: boolean,
  ) {}

  /** The lock was skipped. */
  get skipped(): boolean {
    return this.native.skipped;
  }

  /** Made where a caller awaits it, so that its stack names the caller. */
  error(): Error {
    return errorOf(this.native);
  }
}

/** What is called with the row that answers a request. */
export type Settle = (a: number, b: number, failure: Failure | undefined, holder: Holder | undefined) => void;

const ROWS = 128;

/** Tells the native library of holds that were lost and are garbage now. It keeps no client. */
const lapsed = new FinalizationRegistry<{ readonly client: WeakRef<NativeClient>; readonly lease: number }>(
  ({ client, lease }) => client.deref()?.forget(lease),
);

export class Inbox {
  readonly native: NativeClient;
  readonly #client: WeakRef<NativeClient>;
  readonly #listener: Listener;
  readonly #width = words().width;
  readonly #rows = new Float64Array(ROWS * this.#width);
  /** Where the next row is, and where those end that were drained. */
  #at = 0;
  #end = 0;
  readonly #codes = codes();
  readonly #pending = new NumberTable<Settle>();
  #waiting = 0;
  /** Every hold from its grant until it is lost, or its release is answered. */
  readonly #holds = new NumberTable<Hold>();
  /** Its engine's: weak, as the client's listeners may refer to the client. */
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

  /** Starts to connect. The answer comes as that of request 0. */
  static open(options: ClientOptions, opening: Opening): Inbox | Failure {
    const listener = new Listener();
    const client = native.open(options, () => listener.inbox?.drain(), opening);
    return 'drain' in client ? new Inbox(client, listener) : new Failure(client, false);
  }

  /** Whom to tell what is observed. */
  tellObservations(observations: Observations): void {
    this.#observations = new WeakRef(observations);
  }

  /** It is connected: from now on the client is closed when the process ends. */
  connected(): void {
    closeAtExit(this.native);
  }

  /** The client is closed, or never connected. It is garbage once nobody asks it for anything. */
  closed(): void {
    this.#holds.clear();
    this.#isOpen = false;
    forgetAtExit(this.native);
    this.#listen();
    this.#endIfAnswered();
  }

  /** Nobody has the engine any more. */
  dropped(): void {
    this.#isDropped = true;
    this.#freeIfDone();
  }

  /** Calls `settle` with the answer to a request. */
  await(request: number, settle: Settle): void {
    this.#pending.set(request, settle);
    this.#waiting += 1;
    this.#listen();
    wait();
    // Nobody wakes a closed client, which answers at once.
    if (!this.#isOpen) queueMicrotask(() => this.drain());
  }

  /**
   * What an acquisition comes to. `grant` makes its lease, in the very batch that
   * grants it, so that a loss that follows finds it. Rejects if `signal` aborts.
   * `span` is told how it ended.
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
      const giveUp = (reason: unknown) => {
        this.#forget(request);
        this.native.cancel(request);
        span?.cancelled();
        reject(reason);
      };
      try {
        stopListening = whenAborted(signal, () => giveUp(reasonOf(signal)));
      } catch (error) {
        // A signal of one's own may throw: nobody could give this up later.
        giveUp(error);
      }
    });
  }

  /** A lease was released. */
  released(lease: number): void {
    this.#holds.delete(lease);
  }

  /**
   * Takes what the native library has to tell. A listener of a signal may turn the event loop, and so call this in the
   * midst of itself: rows are taken in their order all the same, each once.
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
        this.#take(rows[at] as number, rows[at + 1] as number, rows[at + 2] as number, rows[at + 3] as number);
      } catch (error) {
        // An `AbortController` of the program's own may throw. The rows behind are not to pay for it.
        queueMicrotask(() => {
          throw error;
        });
      }
    }
    if (this.#isDropped) this.#freeIfDone();
  }

  #take(code: number, id: number, a: number, b: number): void {
    const codes = this.#codes;
    if (code === codes.lost) {
      const hold = this.#holds.get(id);
      this.#holds.delete(id);
      if (hold === undefined) return;
      lapsed.register(hold, { client: this.#client, lease: id });
      hold.onLost(words().reasons[a] as LostReason, b === 1);
      return;
    }
    if (code === codes.observed) {
      const observations = this.#observations?.deref();
      const observation = this.native.nextObservation(observations?.isHeard ?? false);
      if (observation) observations?.tell(observation);
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
      // Its caller aborted in this very batch.
      this.native.release(a);
    }
  }

  /** Nobody waits for the answer to a request any more. */
  #forget(request: number): void {
    if (!this.#pending.delete(request)) return;
    this.#waiting -= 1;
    this.#listen();
    stopWaiting();
    this.#endIfAnswered();
  }

  /** Requests made while the client closed are answered after it has said that it is closed. */
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
      warnOf(held);
    }
  }
}

/** Who is woken. The native library keeps it; it keeps an inbox only as long as that has something to wait for. */
class Listener {
  #strong: Inbox | undefined;
  #weak: WeakRef<Inbox> | undefined;

  get inbox(): Inbox | undefined {
    return this.#strong ?? this.#weak?.deref();
  }

  listen(inbox: Inbox | undefined): void {
    // What nobody awaits is told too, as long as somebody might still ask.
    if (inbox === undefined && this.#strong !== undefined) this.#weak = new WeakRef(this.#strong);
    this.#strong = inbox;
  }
}

function warnOf(held: number): void {
  const locks = held === 1 ? '1 lock, which stays' : `${held} locks, which stay`;
  warn(
    `a Steadlock client was dropped while it held ${locks} held until the process ends; ` +
      'keep its leases and release them, or close the client',
    'STEADLOCK_CLIENT_DROPPED',
  );
}

// One client of the core, and what its engine needs of the host: turns, timers, and the program's Redis clients.
//
//   a call of JavaScript ─► the core ─► a turn, soon ─► what is to be sent ─► the program's Redis client
//                              ▲                                                    │
//                              └─────── an answer, a message, or a time has come ◄──┘
//
// The core never calls JavaScript. Each input asks for a turn of the engine, which all inputs of one tick share.

import type { NativeClient, NativeFailure, NativeHolder, NativeObservation } from './binding.js';
import { Broken } from './broken.js';
import type { NativeClient as Core } from './glue.js';
import type { RedisClient } from './redis-client.js';
import { keepAlive } from './runtime.js';
import { type Script, Servers, type Transmit } from './servers.js';
import { CONNECT, codes } from './words.js';

const LONGEST_TIMER_MS = 2 ** 31 - 1;

export class DrivenClient implements NativeClient {
  readonly #core: Core;
  readonly #servers: Servers;
  readonly #wake: () => void;
  #isTurnWanted = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** When the timer fires. */
  #timerAt = 0;
  /** Since the core failed: a trap leaves it in no state to be asked anything. */
  #broken: Broken | undefined;
  /** What was asked and not answered, and the leases that are held: for the day that the core fails. */
  readonly #requests: Set<number>;
  readonly #leases = new Set<number>();
  readonly #codes = codes();

  constructor(
    core: Core,
    clients: readonly RedisClient[],
    scripts: readonly Script[],
    { isLazy, keyPrefix }: { isLazy: boolean; keyPrefix: string },
    wake: () => void,
  ) {
    this.#core = core;
    this.#requests = new Set(isLazy ? [] : [CONNECT]);
    this.#wake = wake;
    this.#servers = new Servers(clients, scripts, {
      tell: (what) => this.#tell(what),
      connectTimeoutMs: core.connectTimeoutMs(),
      isLazy,
      keyPrefix,
    });
    this.#wantTurn();
    this.#servers.connect();
  }

  acquire(...wanted: Parameters<NativeClient['acquire']>): number {
    return this.#submit((core) => core.acquire(...wanted));
  }

  release(lease: number): number {
    this.#leases.delete(lease);
    return this.#submit((core) => core.release(lease));
  }

  forget(lease: number): void {
    this.#ask(undefined, (core) => core.forget(lease));
  }

  extend(lease: number, byMs: number | undefined): number {
    return this.#submit((core) => core.extend(lease, byMs));
  }

  inspect(lock: string): number {
    return this.#submit((core) => core.inspect(lock));
  }

  forceRelease(lock: string): number {
    return this.#submit((core) => core.forceRelease(lock));
  }

  setLimit(lock: string): number {
    return this.#submit((core) => core.setLimit(lock));
  }

  close(): number {
    return this.#submit((core) => core.close());
  }

  cancel(request: number): void {
    this.#requests.delete(request);
    this.#tell((core) => core.cancel(request));
  }

  metrics(): string | NativeFailure {
    return this.#ask<string | NativeFailure>(Broken.FAILURE, (core) => core.metrics());
  }

  metricsGroup(name: string): string | NativeFailure {
    return this.#ask<string | NativeFailure>(Broken.FAILURE, (core) => core.metricsGroup(name));
  }

  remainingMs(lease: number): number {
    return this.#noticing(this.#ask(0, (core) => core.remainingMs(lease)));
  }

  isValid(lease: number): boolean {
    return this.#noticing(this.#ask(false, (core) => core.isValid(lease)));
  }

  lostReason(lease: number): number {
    return this.#ask(-1, (core) => core.lostReason(lease));
  }

  drain(buffer: Float64Array): number {
    const count = this.#ask(0, (core) => core.drain(buffer));
    if (this.#broken !== undefined) return this.#broken.drain(buffer);
    for (let at = 0; at < count * Broken.WIDTH; at += Broken.WIDTH) this.#note(buffer, at);
    return count;
  }

  nextFailure(): NativeFailure | undefined {
    return this.#ask<NativeFailure | undefined>(Broken.FAILURE, (core) => core.nextFailure());
  }

  nextHolder(): NativeHolder | undefined {
    return this.#ask(undefined, (core) => core.nextHolder());
  }

  nextObservation(isWanted: boolean): NativeObservation | undefined {
    return this.#ask(undefined, (core) => core.nextObservation(isWanted));
  }

  /** Asks the core for something, and wants a turn. */
  #submit(ask: (core: Core) => number): number {
    const request = this.#ask(undefined, ask) ?? (this.#broken as Broken).refuse();
    this.#requests.add(request);
    this.#wantTurn();
    return request;
  }

  /** Tells the core something, and wants a turn. */
  #tell(what: (core: Core) => void): void {
    this.#ask(undefined, what);
    this.#wantTurn();
  }

  /** What is left of a lease. Who asks may notice first that the machine slept, as timers did too: a turn tells all. */
  #noticing<T extends number | boolean>(left: T): T {
    if (!left) this.#wantTurn();
    return left;
  }

  #ask<T>(otherwise: T, ask: (core: Core) => T): T {
    if (this.#broken !== undefined) return otherwise;
    try {
      return ask(this.#core);
    } catch (error) {
      this.#fail(error);
      return otherwise;
    }
  }

  #wantTurn(): void {
    if (this.#isTurnWanted) return;
    this.#isTurnWanted = true;
    queueMicrotask(() => this.#turn());
  }

  #turn(): void {
    this.#isTurnWanted = false;
    const isOver = this.#ask(true, (core) => core.turn());
    for (;;) {
      const item = this.#ask(undefined, (core) => core.nextTransmit(this.#servers.sharded) as Transmit | undefined);
      if (item === undefined) break;
      this.#servers.send(item);
    }
    if (this.#broken !== undefined || this.#ask(false, (core) => core.hasEvents())) this.#wake();
    if (isOver) this.#end();
    else this.#setTimer(this.#ask(undefined, (core) => core.dueInMs()));
  }

  /** Sets the timer, unless it fires soon enough: a turn too many does no harm. */
  #setTimer(inMs: number | undefined): void {
    if (inMs === undefined) return;
    const at = performance.now() + inMs;
    if (this.#timer !== undefined && this.#timerAt <= at) return;
    clearTimeout(this.#timer);
    this.#timerAt = at;
    this.#timer = setTimeout(
      () => {
        this.#timer = undefined;
        this.#turn();
      },
      Math.min(Math.ceil(inMs), LONGEST_TIMER_MS),
    );
    // A waiter keeps the program alive; a renewal does not.
    keepAlive(this.#timer, false);
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#servers.end();
  }

  /** What the core says of requests and leases. */
  #note(buffer: Float64Array, at: number): void {
    const [code, id, lease] = [buffer[at], buffer[at + 1] as number, buffer[at + 2] as number];
    const { lost, granted, observed } = this.#codes;
    if (code === lost) this.#leases.delete(id);
    else if (code !== observed) this.#requests.delete(id);
    if (code === granted) this.#leases.add(lease);
  }

  /** The core trapped: every waiting caller is told, and nobody relies on a lease any more. */
  #fail(error: unknown): void {
    this.#broken = new Broken(error, this.#requests, this.#leases);
    this.#wantTurn();
  }
}

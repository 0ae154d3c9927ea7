// A client of the core, and the services of the host for its engine: turns, timers, and the program's Redis clients.
//
//   a call of JavaScript ─► the core ─► a turn, soon ─► what is to be sent ─► the program's Redis client
//                              ▲                                                    │
//                              └─────── an answer, a message, or a time has come ◄──┘
//
// The core never calls JavaScript. After each call of the core a turn is scheduled; all calls of one tick share it.

import type { NativeClient, NativeFailure, NativeHolder, NativeLock, NativeObservation } from './binding.js';
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
  /** The time at which the timer fires. */
  #timerAt = 0;
  /** Set after the core failed: after a trap no call may reach the core. */
  #broken: Broken | undefined;
  /** The pending requests and the held leases, to be ended if the core fails. */
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

  inspect(lock: NativeLock): number {
    return this.#submit((core) => core.inspect(lock));
  }

  forceRelease(lock: NativeLock): number {
    return this.#submit((core) => core.forceRelease(lock));
  }

  setLimit(lock: NativeLock): number {
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

  /** Submits a request to the core, and schedules a turn. */
  #submit(ask: (core: Core) => number): number {
    const request = this.#ask(undefined, ask) ?? (this.#broken as Broken).refuse();
    this.#requests.add(request);
    this.#wantTurn();
    return request;
  }

  /** Reports something to the core, and schedules a turn. */
  #tell(what: (core: Core) => void): void {
    this.#ask(undefined, what);
    this.#wantTurn();
  }

  /**
   * Returns `left`. If nothing is left, schedules a turn: after a sleep of the machine, timers are late too, and this
   * caller can be the first to notice the loss. The turn reports it.
   */
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

  /** Sets the timer, unless it fires early enough. An additional turn does no harm. */
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
    // Only waiting callers keep the program alive; renewals do not.
    keepAlive(this.#timer, false);
  }

  #end(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#servers.end();
  }

  /** Follows the rows of the core, to know the pending requests and the held leases. */
  #note(buffer: Float64Array, at: number): void {
    const [code, id, lease] = [buffer[at], buffer[at + 1] as number, buffer[at + 2] as number];
    const { lost, granted, observed } = this.#codes;
    if (code === lost) this.#leases.delete(id);
    else if (code !== observed) this.#requests.delete(id);
    if (code === granted) this.#leases.add(lease);
  }

  /** Handles a trap of the core: all pending requests fail, and all leases are lost. */
  #fail(error: unknown): void {
    this.#broken = new Broken(error, this.#requests, this.#leases);
    this.#wantTurn();
  }
}

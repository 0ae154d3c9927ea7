// A client of the core, and the services of the host for its engine: turns, timers, and the program's Redis clients.
//
//   a call of JavaScript ─► the core ─► a turn, soon ─► what is to be sent ─► the program's Redis client
//                              ▲                                                    │
//                              └─────── a reply or a message, or the timer fires ◄──┘
//
// A turn is one run of the engine, which does all pending work. The core never calls JavaScript: JavaScript schedules a
// turn after each call to the core that leaves work. All calls of one tick share a turn.

import type { NativeClient, NativeFailure, NativeHolder, NativeLock, NativeObservation } from './binding.js';
import { FailedCore } from './failed-core.js';
import type { NativeClient as Core } from './glue.js';
import type { RedisClient } from './redis-client.js';
import { keepAlive } from './runtime.js';
import { type Script, Servers, type Transmit } from './servers.js';
import { CONNECT, codes } from './words.js';

const MAX_TIMER_MS = 2 ** 31 - 1;

export class DrivenClient implements NativeClient {
  readonly #core: Core;
  readonly #servers: Servers;
  readonly #wake: () => void;
  #isTurnScheduled = false;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** The time at which the timer fires. */
  #timerAt = 0;
  /** Set after the core has trapped, which is a failure inside WebAssembly: from then on no call may reach the core. */
  #failedCore: FailedCore | undefined;
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
      report: (what) => this.#report(what),
      connectTimeoutMs: core.connectTimeoutMs(),
      isLazy,
      keyPrefix,
    });
    this.#scheduleTurn();
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
    this.#callCore(undefined, (core) => core.forget(lease));
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
    this.#report((core) => core.cancel(request));
  }

  metrics(): string | NativeFailure {
    return this.#callCore<string | NativeFailure>(FailedCore.FAILURE, (core) => core.metrics());
  }

  metricsGroup(name: string): string | NativeFailure {
    return this.#callCore<string | NativeFailure>(FailedCore.FAILURE, (core) => core.metricsGroup(name));
  }

  remainingMs(lease: number): number {
    return this.#turnIfExpired(this.#callCore(0, (core) => core.remainingMs(lease)));
  }

  isValid(lease: number): boolean {
    return this.#turnIfExpired(this.#callCore(false, (core) => core.isValid(lease)));
  }

  lostReason(lease: number): number {
    return this.#callCore(-1, (core) => core.lostReason(lease));
  }

  drain(buffer: Float64Array): number {
    const count = this.#callCore(0, (core) => core.drain(buffer));
    if (this.#failedCore !== undefined) return this.#failedCore.drain(buffer);
    for (let at = 0; at < count * FailedCore.WIDTH; at += FailedCore.WIDTH) this.#trackRow(buffer, at);
    return count;
  }

  nextFailure(): NativeFailure | undefined {
    return this.#callCore<NativeFailure | undefined>(FailedCore.FAILURE, (core) => core.nextFailure());
  }

  nextHolder(): NativeHolder | undefined {
    return this.#callCore(undefined, (core) => core.nextHolder());
  }

  nextObservation(isWanted: boolean): NativeObservation | undefined {
    return this.#callCore(undefined, (core) => core.nextObservation(isWanted));
  }

  /** Submits a request to the core, and schedules a turn. */
  #submit(call: (core: Core) => number): number {
    const request = this.#callCore(undefined, call) ?? (this.#failedCore as FailedCore).refuse();
    this.#requests.add(request);
    this.#scheduleTurn();
    return request;
  }

  /** Reports something to the core, and schedules a turn. */
  #report(what: (core: Core) => void): void {
    this.#callCore(undefined, what);
    this.#scheduleTurn();
  }

  /**
   * Returns `left`. If nothing is left, schedules a turn: after a sleep of the machine, timers are late too, and this
   * caller can be the first to notice the loss. The turn reports it.
   */
  #turnIfExpired<T extends number | boolean>(left: T): T {
    if (!left) this.#scheduleTurn();
    return left;
  }

  #callCore<T>(fallback: T, call: (core: Core) => T): T {
    if (this.#failedCore !== undefined) return fallback;
    try {
      return call(this.#core);
    } catch (error) {
      this.#fail(error);
      return fallback;
    }
  }

  #scheduleTurn(): void {
    if (this.#isTurnScheduled) return;
    this.#isTurnScheduled = true;
    queueMicrotask(() => this.#turn());
  }

  #turn(): void {
    this.#isTurnScheduled = false;
    const isOver = this.#callCore(true, (core) => core.turn());
    for (;;) {
      const item = this.#callCore(
        undefined,
        (core) => core.nextTransmit(this.#servers.sharded) as Transmit | undefined,
      );
      if (item === undefined) break;
      this.#servers.send(item);
    }
    if (this.#failedCore !== undefined || this.#callCore(false, (core) => core.hasEvents())) this.#wake();
    if (isOver) this.#end();
    else this.#setTimer(this.#callCore(undefined, (core) => core.dueInMs()));
  }

  /** Sets the timer, unless it is set and fires early enough. An additional turn does no harm. */
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
      Math.min(Math.ceil(inMs), MAX_TIMER_MS),
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
  #trackRow(buffer: Float64Array, at: number): void {
    const [code, id, lease] = [buffer[at], buffer[at + 1] as number, buffer[at + 2] as number];
    const { lost, granted, observed } = this.#codes;
    if (code === lost) this.#leases.delete(id);
    else if (code !== observed) this.#requests.delete(id);
    if (code === granted) this.#leases.add(lease);
  }

  /** Handles a trap of the core: all pending requests fail, and all leases are lost. */
  #fail(error: unknown): void {
    this.#failedCore = new FailedCore(error, this.#requests, this.#leases);
    this.#scheduleTurn();
  }
}

// Replaces the core of a client after a failure. WebAssembly that trapped can be in any state, so no call may reach it
// any more: pending requests fail, and held leases count as lost, although their records stay on the server until they
// expire.

import type { NativeFailure } from './binding.js';
import { codes, words } from './words.js';

/** The first request number after the failure. The core counts its own requests from 0. */
const FIRST_REQUEST = 2 ** 52;

export class FailedCore {
  /** The number of columns of a row. */
  static readonly WIDTH = 4;

  /** The error of every call after the failure. */
  static readonly FAILURE: NativeFailure = {
    kind: 'Unavailable',
    message: 'the WebAssembly module of steadlock-web failed; make a new client, in a new process if it fails again',
    operation: 'acquire',
    retryable: false,
    skipped: false,
  };

  readonly #rows: [code: number, id: number, a: number, b: number][];
  #requests = FIRST_REQUEST;

  constructor(error: unknown, requests: Iterable<number>, leases: Iterable<number>) {
    console.error('steadlock-web: the WebAssembly module failed', error);
    const { failed, lost } = codes();
    const expired = words().reasons.indexOf('expired');
    const losses = Array.from(leases, (lease) => [lost, lease, expired, 0] as [number, number, number, number]);
    const failures = Array.from(requests, (request) => [failed, request, 0, 0] as [number, number, number, number]);
    this.#rows = [...losses, ...failures];
  }

  /** Accepts a request, which then fails. Returns the request number. */
  refuse(): number {
    this.#requests += 1;
    this.#rows.push([codes().failed, this.#requests, 0, 0]);
    return this.#requests;
  }

  /** Works like a client's `drain`. */
  drain(buffer: Float64Array): number {
    const rows = this.#rows.splice(0, Math.floor(buffer.length / FailedCore.WIDTH));
    rows.forEach((row, at) => {
      buffer.set(row, at * FailedCore.WIDTH);
    });
    return rows.length;
  }
}

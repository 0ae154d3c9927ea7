/// <reference lib="esnext.disposable" preserve="true" />

/** A distributed lock on Redis or Valkey, shared with Python, Kotlin, Java and Rust. */

export type { CallOptions, UsingOptions } from './call-options.js';
export { type Body, Client } from './client.js';
export { connect, redlock } from './connect.js';
export type { ReleaseOutcome } from './engine.js';
export {
  type ClientInfo,
  ClosedError,
  type ErrorDetails,
  type ErrorKind,
  ForkedError,
  type Holder,
  InvalidArgumentError,
  LockLostError,
  LockTimeoutError,
  type LostReason,
  MisconfiguredError,
  NotOwnerError,
  type Operation,
  SkippedError,
  type SkipReason,
  SteadlockError,
  UnavailableError,
} from './errors.js';
export { Lease } from './lease.js';
export { Lock } from './lock.js';
export type { ClientEvents, Observation } from './observations.js';
export type {
  AcquireOptions,
  AddressFunction,
  ConnectOptions,
  LockOptions,
  OnUnavailable,
  PermitOptions,
} from './options.js';
export { ReadWriteLock } from './read-write-lock.js';
export { Semaphore } from './semaphore.js';

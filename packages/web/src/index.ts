/// <reference lib="esnext.disposable" preserve="true" />

/**
 * A distributed lock on Redis or Valkey, shared with Python, Node, Kotlin, Java and Rust, for any host of JavaScript:
 * WebAssembly behind the program's own Redis client.
 */

export type { CallOptions, UsingOptions } from './call-options.js';
export { type Body, Client } from './client.js';
export { type ConnectOptions, connect, redlock } from './connect.js';
export type { Emitter } from './emitter.js';
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
export type { AcquireOptions, LockOptions, OnUnavailable, PermitOptions } from './options.js';
export { ReadWriteLock } from './read-write-lock.js';
export { type RedisClient, type Reply, ReplyError, type Unsubscribe } from './redis-client.js';
export { Semaphore } from './semaphore.js';
export { type Core, useCore } from './wasm.js';

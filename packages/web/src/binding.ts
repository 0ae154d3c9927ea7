// The data that crosses the border between JavaScript and the core: see `bindings/wasm/src`.

/** A lock: `permits` and `limit` are those of a semaphore, `members` those of a composite lock. */
export interface NativeLock {
  /** The kind, as the metrics call it. */
  readonly kind: string;
  readonly name: string;
  readonly permits?: number;
  readonly limit?: number;
  readonly members?: readonly NativeLock[];
}

/** A client of the core. Most methods return a request number, and the reply to the request comes by `drain`. */
export interface NativeClient {
  acquire(
    lock: NativeLock,
    waitMs: number | undefined,
    leaseMs: number | undefined,
    renew: boolean,
    maxHoldMs: number | undefined,
    within: number | undefined,
    fencing: boolean,
    onUnavailable: string | undefined,
    remainingMs: number | undefined,
  ): number;
  release(lease: number): number;
  forget(lease: number): void;
  extend(lease: number, byMs: number | undefined): number;
  inspect(lock: NativeLock): number;
  forceRelease(lock: NativeLock): number;
  setLimit(lock: NativeLock): number;
  metrics(): string | NativeFailure;
  metricsGroup(name: string): string | NativeFailure;
  close(): number;
  cancel(request: number): void;
  remainingMs(lease: number): number;
  isValid(lease: number): boolean;
  lostReason(lease: number): number;
  drain(buffer: Float64Array): number;
  nextFailure(): NativeFailure | undefined;
  nextHolder(): NativeHolder | undefined;
  nextObservation(isWanted: boolean): NativeObservation | undefined;
}

/** The options of a client, checked for their types; what is left out has the core's default. */
export type ClientOptions = Readonly<Record<string, unknown>> & {
  readonly lazy?: boolean;
  readonly keyPrefix?: string;
};

export interface NativeFailure {
  readonly kind: string;
  readonly message: string;
  readonly cause?: string;
  readonly operation: string;
  readonly lockName?: string;
  readonly holder?: NativeHolder;
  readonly reason?: string;
  readonly sinceMs?: number;
  readonly tookMs?: number;
  readonly node?: string;
  readonly retryable: boolean;
  readonly skipped: boolean;
}

export interface NativeHolder {
  readonly owner: string;
  readonly remainingMs?: number;
  readonly client?: NativeClientInfo;
}

export interface NativeClientInfo {
  readonly host: string;
  readonly pid: number;
  readonly program: string;
  readonly language: string;
  readonly version: string;
  /** The time at which the client was made, in seconds since 1970. */
  readonly since: number;
  readonly label: string;
}

export interface NativeObservation {
  readonly level: string;
  readonly message: string;
  readonly fields: Readonly<Record<string, string | number>>;
}

export interface Vocabulary {
  readonly width: number;
  readonly codes: readonly string[];
  readonly outcomes: readonly string[];
  readonly reasons: readonly string[];
  readonly kinds: readonly string[];
  readonly lockKinds: readonly string[];
  readonly policies: readonly string[];
  readonly optionNames: readonly string[];
  readonly optionKinds: readonly ('flag' | 'number' | 'text' | 'texts' | 'range' | 'table' | 'on_unavailable')[];
}

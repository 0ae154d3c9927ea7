/** The exports of the native library: see `bindings/node/src`. Private; users import `steadlock`. */

/** A lock: `permits` and `limit` are those of a semaphore, `members` those of a composite lock. */
export interface NativeLock {
  /** The kind, as the metrics call it. */
  readonly kind: string;
  readonly name: string;
  readonly permits?: number;
  readonly limit?: number;
  readonly members?: readonly NativeLock[];
}

/** A client. Only the JavaScript thread that opened it calls its methods. */
export declare class NativeClient {
  /** Requests a lock. Returns the request number. */
  acquire(
    lock: NativeLock,
    waitMs: number | undefined | null,
    leaseMs: number | undefined | null,
    renew: boolean,
    maxHoldMs: number | undefined | null,
    within: number | undefined | null,
    fencing: boolean,
    onUnavailable: string | undefined | null,
    remainingMs: number | undefined | null,
  ): number;
  /** Releases a lease. Returns the request number. The lease counts as released at once. */
  release(lease: number): number;
  /** Forgets a lost lease, because JavaScript has no object of it any more. */
  forget(lease: number): void;
  /** Extends a lease. Returns the request number. */
  extend(lease: number, byMs?: number | undefined | null): number;
  /** Asks the server for the holder of a lock. Returns the request number. */
  inspect(lock: NativeLock): number;
  /** Removes the records of all holders of a lock. Returns the request number. */
  forceRelease(lock: NativeLock): number;
  /** Changes a semaphore's limit to that of `lock`. Returns the request number. */
  setLimit(lock: NativeLock): number;
  /** Returns the metrics in Prometheus' text format. */
  metrics(): string | NativeFailure;
  /** Returns the metrics as rows, for OpenTelemetry. */
  metricRows(): NativeMetric[] | NativeFailure;
  /** Returns the label for the group of a lock of this name in `metrics`. */
  metricsGroup(name: string): string | NativeFailure;
  /** Closes the client. Returns the request number. */
  close(): number;
  /**
   * Drops the functions of JavaScript, which would be open handles. Called for a closed client. Its later requests are
   * answered at once, and JavaScript drains the answers without a wake-up.
   */
  endCalls(): void;
  /** Cancels a request whose caller does not wait any more. */
  cancel(request: number): void;
  /** Returns the time that is left of a lease, in milliseconds; 0 if the lease is not held. */
  remainingMs(lease: number): number;
  /** Whether a lease is valid at this moment. */
  isValid(lease: number): boolean;
  /**
   * Whether a caller that holds the lock `held` and waits for the lock `wanted`, without `within`, waits for itself.
   * False for an invalid lock, whose error the acquisition reports.
   */
  keepsOut(held: NativeLock, wanted: NativeLock): boolean;
  /** Returns the index of the reason for the loss of a lease; −1 if it is not lost. */
  lostReason(lease: number): number;
  /**
   * Writes queued events into `buffer` as rows, and returns their number. If the buffer is full, more events can be
   * left: drain again.
   */
  drain(buffer: Float64Array): number;
  /** Returns the error of the next refused or failed row. */
  nextFailure(): NativeFailure | null;
  /** Returns the holder for the next state row of a held lock. */
  nextHolder(): NativeHolder | null;
  /** Returns the observation of the next observed row. Builds it only if `isWanted`, because texts take time. */
  nextObservation(isWanted: boolean): NativeObservation | null;
}

/** The options of a client, checked for their types; what is left out has the core's default. */
export type ClientOptions = Readonly<Record<string, unknown>>;

/**
 * Closes several clients at the end of the process, all at the same time.
 *
 * Returns when their servers have answered, after `timeoutMs` at the latest.
 */
export declare function closeAtExit(clients: Array<NativeClient>, timeoutMs: number): void;

/**
 * Returns the error for a caller whose lease was lost for `reason`. `isForgotten` means that the lease needs no
 * release. `atRelease` means that the caller is releasing the lease.
 */
export declare function lostError(
  name: string,
  reason: string,
  isForgotten: boolean,
  atRelease: boolean,
): NativeFailure;

/** The program and the machine of a client. */
export interface NativeClientInfo {
  host: string;
  pid: number;
  program: string;
  language: string;
  version: string;
  /** The time at which the client was made, in seconds since 1970. */
  since: number;
  label: string;
}

/** An error. */
export interface NativeFailure {
  /** The name of the kind; the class name is this name followed by `Error`. */
  kind: string;
  message: string;
  /** The message of the server or of the network, or the reason why no reply came. */
  cause?: string;
  operation: string;
  /** The lock's name. */
  lockName?: string;
  /** The holder of the lock by the server's last reply. */
  holder?: NativeHolder;
  /** The reason for the loss of the lease. */
  reason?: string;
  /** The server to which the error belongs. */
  node?: string;
  /** Whether the same call can succeed later. */
  retryable: boolean;
  /** Whether the lock was skipped because its server is unavailable. */
  skipped: boolean;
}

/** The holder of a lock. */
export interface NativeHolder {
  owner: string;
  /** The time that is left of the holder's lease, in milliseconds; absent if its record has no TTL. */
  remainingMs?: number;
  /** The holder's program and machine; absent if they are not known. */
  client?: NativeClientInfo;
}

/** One metric, by its name and unit in OpenTelemetry. */
export interface NativeMetric {
  name: string;
  unit: string;
  kind: 'counter' | 'gauge' | 'histogram';
  meaning: string;
  /** The bounds of a histogram's buckets, in seconds. */
  bounds: number[];
  rows: NativeMetricRow[];
}

/** One series of a metric. */
export interface NativeMetricRow {
  labels: Record<string, string>;
  /** For a histogram, the number of measured durations. */
  number: number;
}

/** An event for the program's listeners: one sentence, and its facts as named fields. */
export interface NativeObservation {
  level: string;
  message: string;
  fields: Record<string, string | number>;
}

/** The result of the function of an address map. */
export interface NativeReached {
  /** The address to use; left out for the announced one. */
  address?: string;
  /** The reason why the function gave no address. */
  failure?: string;
}

/**
 * Opens a client, which starts to connect; the row of request 0 (see `steadlock_javascript`) reports the result. A lazy
 * client connects with its first operation, and no row reports the result.
 *
 * `wake` is called on JavaScript's thread whenever there are events to drain. `addresses` maps an announced address, in
 * place of a table. Neither function keeps the process alive.
 */
export declare function open(
  options: ClientOptions,
  wake: () => void,
  addresses?: ((announced: string) => NativeReached) | undefined | null,
): NativeClient | NativeFailure;

/** Returns a lock's name as messages show it, without the userinfo of a URL. */
export declare function shown(name: string): string;

/** Returns the words of which rows are made, and the width of a row. */
export declare function vocabulary(): Vocabulary;

/** The words of which rows are made, and the width of a row. JavaScript reads them once. */
export interface Vocabulary {
  width: number;
  /** The names of the codes, by code. */
  codes: Array<string>;
  outcomes: Array<string>;
  reasons: Array<string>;
  /** The names of all error kinds. */
  kinds: Array<string>;
  /** The names of all kinds of lock. */
  lockKinds: Array<string>;
  /** The ways in which an acquisition can end while its server is unavailable. */
  policies: Array<string>;
  /** The options of a client. */
  optionNames: Array<string>;
  /** Which values each option takes. */
  optionKinds: Array<'flag' | 'number' | 'text' | 'texts' | 'range' | 'table' | 'on_unavailable'>;
}

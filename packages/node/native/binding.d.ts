/** What the native library exports: `bindings/node/src`. Private; users import `steadlock`. */

/**
 * One client. Everything in it belongs to the thread of its JavaScript; the
 * engine's thread only calls `wake`.
 */
export declare class NativeClient {
  /** Asks for a lock, named by its address; returns the request's number. */
  acquire(
    lock: string,
    waitMs: number | undefined | null,
    leaseMs: number | undefined | null,
    renew: boolean,
    maxHoldMs: number | undefined | null,
    within: number | undefined | null,
    fencing: boolean,
    onUnavailable: string | undefined | null,
    remainingMs: number | undefined | null,
  ): number;
  /** Releases a lease; returns the request's number. The lease counts as released at once. */
  release(lease: number): number;
  /** JavaScript has nothing any more of a lease that was lost. */
  forget(lease: number): void;
  /** Extends a lease; returns the request's number. */
  extend(lease: number, byMs?: number | undefined | null): number;
  /** Asks the server who holds a lock; returns the request's number. */
  inspect(lock: string): number;
  /** Takes a lock from its holder; returns the request's number. */
  forceRelease(lock: string): number;
  /** Changes a semaphore's limit to that of the address; returns the request's number. */
  setLimit(lock: string): number;
  /** What it has counted, in Prometheus' text format. */
  metrics(): string | NativeFailure;
  /** The same as rows, for OpenTelemetry. */
  metricRows(): NativeMetric[] | NativeFailure;
  /** The label that a lock of this name has for its group in `metrics`. */
  metricsGroup(name: string): string | NativeFailure;
  /** Closes; returns the request's number. */
  close(): number;
  /**
   * The client is closed: it calls no function any more, which would be open handles. What is asked of it later is
   * answered at once, and JavaScript drains that by itself.
   */
  endCalls(): void;
  /** Nobody waits for the request any more. */
  cancel(request: number): void;
  /** What is left of a lease in milliseconds; 0 if it is not held. */
  remainingMs(lease: number): number;
  /** Whether a lease is held, by the clock of now. */
  isValid(lease: number): boolean;
  /** Whether a caller that holds the lock of one address and waits for that of another one waits for itself. */
  keepsOut(held: string, wanted: string): boolean;
  /** The index of the reason for which a lease is lost; −1 if it is not. */
  lostReason(lease: number): number;
  /**
   * Puts queued events into `buffer` as rows, and returns how many. A full
   * buffer may leave some: drain again.
   */
  drain(buffer: Float64Array): number;
  /** The error of the next refused or failed row. */
  nextFailure(): NativeFailure | null;
  /** Who holds the lock of the next row that says it is held. */
  nextHolder(): NativeHolder | null;
  /** What the next row says that something was observed; its words are made only if they are wanted. */
  nextObservation(isWanted: boolean): NativeObservation | null;
}

/** The options of a client, checked for their types; what is left out has the core's default. */
export type ClientOptions = Readonly<Record<string, unknown>>;

/**
 * Closes several clients at the end of the process, all at once.
 *
 * Returns when their servers have answered, after `timeout_ms` at the most.
 */
export declare function closeAtExit(clients: Array<NativeClient>, timeoutMs: number): void;

/** The error for a caller whose lease was lost for this reason, and perhaps forgotten: at its release, or before that. */
export declare function lostError(
  name: string,
  reason: string,
  isForgotten: boolean,
  atRelease: boolean,
): NativeFailure;

/** Which program on which machine a client is. */
export interface NativeClientInfo {
  host: string;
  pid: number;
  program: string;
  language: string;
  version: string;
  /** In seconds since 1970. */
  since: number;
  label: string;
}

/** One error. */
export interface NativeFailure {
  /** The kind's name, from which the class has its own. */
  kind: string;
  message: string;
  /** What the server or the network said, or why nothing came. */
  cause?: string;
  operation: string;
  /** The lock's name. */
  lockName?: string;
  /** Who held the lock at the server's last answer. */
  holder?: NativeHolder;
  /** Why the lease was lost. */
  reason?: string;
  /** The server that has to do with it. */
  node?: string;
  /** Whether the same call may go well later. */
  retryable: boolean;
  /** Whether the lock was skipped, since its server is unavailable. */
  skipped: boolean;
}

/** Who holds a lock. */
export interface NativeHolder {
  owner: string;
  /** What is left of the holder's lease; absent if its record has no TTL. */
  remainingMs?: number;
  /** Which program on which machine it is; absent if that is not known. */
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
  /** For a histogram, how many times it counted. */
  number: number;
}

/** Something for those who listen: a sentence, and what it says by name. */
export interface NativeObservation {
  level: string;
  message: string;
  fields: Record<string, string | number>;
}

/** What the function said. */
export interface NativeReached {
  /** Left out for "as it is announced". */
  address?: string;
  /** Why it said nothing. */
  failure?: string;
}

/**
 * Starts to connect. The answer comes as the row of request 0.
 *
 * `wake` is called on JavaScript's thread whenever there is something to drain.
 * It does not keep the process alive. Nor does `addresses`, which says where an announced address
 * is reached, in place of a table.
 */
export declare function open(
  options: ClientOptions,
  wake: () => void,
  addresses?: ((announced: string) => NativeReached) | undefined | null,
): NativeClient | NativeFailure;

/** A lock's name as messages show it. */
export declare function shown(name: string): string;

/** The words and numbers that rows are made of. */
export declare function vocabulary(): Vocabulary;

/** The words and numbers that rows are made of, told to JavaScript once. */
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
  /** What may become of an acquisition while its server is unavailable. */
  policies: Array<string>;
  /** The options of a client. */
  optionNames: Array<string>;
  /** Which values each of them takes: `flag`, `number`, `text`, `texts`, `range`, `table` or `on_unavailable`. */
  optionKinds: Array<string>;
}

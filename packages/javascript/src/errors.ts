import { type NativeClientInfo, type NativeFailure, type NativeHolder, native } from './native.js';

/** The kinds of errors, the same in every language of Steadlock. */
export type ErrorKind =
  | 'LockTimeout'
  | 'Skipped'
  | 'NotOwner'
  | 'LockLost'
  | 'Cancelled'
  | 'Unavailable'
  | 'Misconfigured'
  | 'InvalidArgument'
  | 'Closed'
  | 'Forked';

/**
 * The reason for the loss of a lease.
 *
 * - `expired`: the deadline passed, because the lease was fixed or the server confirmed no renewal
 * - `removed`: the server has no record of the lease (DEL, FLUSHALL, eviction, failover)
 * - `stolen`: the record on the server belongs to another owner, or was replaced by a value that is not such a lock
 * - `max_hold`: `maxHoldMs` has passed
 * - `closed`: the client was closed
 */
export type LostReason = 'expired' | 'removed' | 'stolen' | 'max_hold' | 'closed';

/**
 * The reason why a job was not run.
 *
 * - `running`: another run of the job is going on
 * - `done`: the job, or this key of it, is done
 * - `unavailable`: the server is unavailable, and `onUnavailable` is `'skip'`
 */
export type SkipReason = 'running' | 'done' | 'unavailable';

/** The holder of a lock, by the server's last reply. */
export interface Holder {
  /** The owner id in the server's record. */
  readonly owner: string;
  /**
   * The rest of the holder's lease at the time of the server's reply, in milliseconds; `null` if the record never
   * expires.
   */
  readonly remainingMs: number | null;
  /**
   * The program that holds the lock, and its machine; `null` if the program is not known, for example because its
   * client or this client has `clientInfo: false`, or because it uses another library.
   */
  readonly client: ClientInfo | null;
}

/**
 * The program and the machine of a client, as the client itself reports them. For people to read: nothing verifies the
 * report.
 */
export interface ClientInfo {
  /** The machine's name. */
  readonly host: string;
  /** The process id on that machine. */
  readonly pid: number;
  /** The program's name, without its folder; for Node, the script's name. */
  readonly program: string;
  /** The language of the program, and its version: `node 20.20.2`. */
  readonly language: string;
  /** The version of Steadlock. */
  readonly version: string;
  /** The time at which the client was made, by that machine's clock, to the second. */
  readonly since: Date;
  /** The client's `clientLabel`; empty if it has none. */
  readonly label: string;
}

/** The operation that failed. `hold` stands for no call: a lease's `signal` aborts with an error of this operation. */
export type Operation = 'connect' | 'acquire' | 'release' | 'extend' | 'hold' | 'inspect' | 'set_limit';

/** The details of an error besides its message. */
export interface ErrorDetails {
  /** The message of the server or of the network. */
  readonly cause?: string | undefined;
  /** The name of the lock. */
  readonly lockName?: string | undefined;
  /** The operation that failed; `acquire` if it is left out. */
  readonly operation?: Operation | undefined;
  /** The holder of the lock. */
  readonly holder?: Holder | undefined;
  /** The reason for the loss of the lease, or why a job was not run. */
  readonly reason?: LostReason | SkipReason | undefined;
  /** When the other run of the job began, in milliseconds since 1970. */
  readonly sinceMs?: number | undefined;
  /** How long the other run of the job took, in milliseconds. */
  readonly tookMs?: number | undefined;
  /** The server to which the error belongs. */
  readonly node?: string | undefined;
  /** Whether the same call can succeed later; false if it is left out. */
  readonly retryable?: boolean | undefined;
  /** Whether the lock was skipped; false if it is left out. */
  readonly skipped?: boolean | undefined;
}

/** The base class of all errors of Steadlock. An error never contains a password. */
export class SteadlockError extends Error {
  /** The kind of the error. The class name is the kind followed by `Error`; `Cancelled` has no class. */
  readonly kind: ErrorKind;
  /** The kind as a code: `STEADLOCK_LOCK_TIMEOUT` for `LockTimeout`. */
  readonly code: string;
  /** The lock's name, without the userinfo of a URL; `null` if no lock was involved. */
  readonly lockName: string | null;
  /** The operation that failed. */
  readonly operation: Operation;
  /**
   * The server that did not answer, or whose configuration does not work with locks: its address without user and
   * password; with several primaries, the addresses of all of them. `null` if the error concerns no server.
   */
  readonly node: string | null;
  /** Whether the same call can succeed later without any change to the program or the servers. */
  readonly retryable: boolean;
  /**
   * Whether the lock was skipped because its server was unavailable and `onUnavailable` is `'skip'`. Only an
   * `UnavailableError` can have this.
   */
  readonly skipped: boolean;
  /**
   * The message of the server or of the network, or the reason why no reply came, as text without advice. For a
   * `LockLostError`, how the lease was lost. `undefined` for an error without such a cause, such as a bad argument or a
   * closed client.
   */
  declare readonly cause?: string;

  constructor(kind: ErrorKind, message: string, details: ErrorDetails = {}) {
    super(message, details.cause === undefined ? undefined : { cause: details.cause });
    this.name = kind === 'Cancelled' ? 'SteadlockError' : `${kind}Error`;
    this.kind = kind;
    this.code = `STEADLOCK_${kind.replace(/(?<=[a-z])(?=[A-Z])/g, '_').toUpperCase()}`;
    this.lockName = details.lockName === undefined ? null : native.shown(details.lockName);
    this.operation = details.operation ?? 'acquire';
    this.node = details.node ?? null;
    this.retryable = details.retryable ?? false;
    this.skipped = details.skipped ?? false;
  }

  /**
   * Returns the fields for `JSON.stringify` and structured logs, including the message, which a plain `Error` leaves
   * out.
   */
  toJSON(): Record<string, unknown> {
    return {
      name: this.name,
      message: this.message,
      ...(this as object),
      ...(this.cause !== undefined && { cause: this.cause }),
    };
  }
}

/** Timed out; another owner holds the lock. */
export class LockTimeoutError extends SteadlockError {
  /**
   * The holder of the lock by the server's last reply; `null` if it is not known, for example while another caller of
   * this client holds the lock.
   */
  readonly holder: Holder | null;

  constructor(message: string, details: ErrorDetails = {}) {
    super('LockTimeout', message, details);
    this.holder = details.holder ?? null;
  }
}

/** The caller does not hold the lock that it wants to release or extend. */
export class NotOwnerError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('NotOwner', message, details);
  }
}

/** The lease ended before its holder released it. */
export class LockLostError extends SteadlockError {
  /** The reason for the loss, if it is known. */
  readonly reason: LostReason | null;

  constructor(message: string, details: ErrorDetails = {}) {
    super('LockLost', message, details);
    this.reason = (details.reason as LostReason | undefined) ?? null;
  }
}

/** A job was not run, because another run of it is going on, or it is done, or the server is unavailable. */
export class SkippedError extends SteadlockError {
  /** Why the job was not run. */
  readonly reason: SkipReason | null;
  /** When the other run began, by the server's clock; `null` if there is none. */
  readonly since: Date | null;
  /** How long the other run took, in milliseconds; `null` while it is going on. */
  readonly tookMs: number | null;
  /** The program that runs or ran the job, and for how long others are kept out if nothing renews the run. */
  readonly holder: Holder | null;

  constructor(message: string, details: ErrorDetails = {}) {
    super('Skipped', message, details);
    this.reason = (details.reason as SkipReason | undefined) ?? null;
    this.since = details.sinceMs === undefined ? null : new Date(details.sinceMs);
    this.tookMs = details.tookMs ?? null;
    this.holder = details.holder ?? null;
  }
}

/** The server did not answer in time, could not be reached, or temporarily cannot serve. */
export class UnavailableError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('Unavailable', message, details);
  }
}

/** The lock cannot work with the configuration of the server or the client, or with the content of the lock's key. */
export class MisconfiguredError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('Misconfigured', message, details);
  }
}

/**
 * An argument has the wrong type or is out of its range, or the caller would wait for itself. Nothing was sent.
 */
export class InvalidArgumentError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('InvalidArgument', message, details);
  }
}

/** The client was closed. */
export class ClosedError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('Closed', message, details);
  }
}

/** The object was made before a `fork` of the process, and does not work in the child. */
export class ForkedError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('Forked', message, details);
  }
}

/**
 * The class of each kind. `Cancelled` has no class: a call whose signal aborts rejects with `signal.reason`, as is
 * usual in JavaScript.
 */
const CLASSES: Record<
  Exclude<ErrorKind, 'Cancelled'>,
  new (
    message: string,
    details?: ErrorDetails,
  ) => SteadlockError
> = {
  LockTimeout: LockTimeoutError,
  Skipped: SkippedError,
  NotOwner: NotOwnerError,
  LockLost: LockLostError,
  Unavailable: UnavailableError,
  Misconfigured: MisconfiguredError,
  InvalidArgument: InvalidArgumentError,
  Closed: ClosedError,
  Forked: ForkedError,
};

/** @internal Returns the JavaScript error for an error of the core. */
export function errorOf(failure: NativeFailure): SteadlockError {
  const { kind, message, holder } = failure;
  const details = {
    ...failure,
    operation: failure.operation as Operation,
    holder: holder && holderOf(holder),
    reason: failure.reason as LostReason | SkipReason | undefined,
  };
  const Class = CLASSES[kind as keyof typeof CLASSES];
  return Class ? new Class(message, details) : new SteadlockError(kind as ErrorKind, message, details);
}

/** @internal Converts a holder to its public form. */
export function holderOf({ owner, remainingMs, client }: NativeHolder): Holder {
  return { owner, remainingMs: remainingMs ?? null, client: client ? clientInfoOf(client) : null };
}

function clientInfoOf(client: NativeClientInfo): ClientInfo {
  return Object.freeze({ ...client, since: new Date(client.since * 1_000) });
}

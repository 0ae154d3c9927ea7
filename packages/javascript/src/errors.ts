import { type NativeClientInfo, type NativeFailure, type NativeHolder, native } from './native.js';

/** The kinds of errors, the same in every language that Steadlock speaks. */
export type ErrorKind =
  | 'LockTimeout'
  | 'NotOwner'
  | 'LockLost'
  | 'Cancelled'
  | 'Unavailable'
  | 'Misconfigured'
  | 'InvalidArgument'
  | 'Closed'
  | 'Forked';

/**
 * Why a lease was lost.
 *
 * - `expired`: its deadline came without a renewal that the server confirmed
 * - `removed`: the server has no record of it (DEL, FLUSHALL, eviction, failover)
 * - `stolen`: the record on the server is another owner's
 * - `max_hold`: `maxHoldMs` has passed
 * - `closed`: the client was closed
 */
export type LostReason = 'expired' | 'removed' | 'stolen' | 'max_hold' | 'closed';

/** Who holds a lock, by the server's last answer. */
export interface Holder {
  /** The owner id that the server has. */
  readonly owner: string;
  /** What was left of the holder's lease, in milliseconds; `null` if its record never expires. */
  readonly remainingMs: number | null;
  /**
   * Which program on which machine it is; `null` if that is not known: its client says nothing, with
   * `clientInfo: false`, or this one does not ask, or it is of another library.
   */
  readonly client: ClientInfo | null;
}

/** Which program on which machine a client is, as it says itself. It is for people to read: nothing vouches for it. */
export interface ClientInfo {
  /** The machine's name. */
  readonly host: string;
  /** The process's number there. */
  readonly pid: number;
  /** The program's name, without its folder; of Node, the script's. */
  readonly program: string;
  /** The language that it uses Steadlock from, and the version of that: `node 20.20.2`. */
  readonly language: string;
  /** Steadlock's version. */
  readonly version: string;
  /** When the client was made, by that machine's clock, to the second. */
  readonly since: Date;
  /** What else it says of itself, as `clientLabel`; empty for nothing. */
  readonly label: string;
}

/** What is done with a lock; `hold` is of the reason with which a lease's `signal` aborts: nothing was called. */
export type Operation = 'connect' | 'acquire' | 'release' | 'extend' | 'hold' | 'inspect' | 'set_limit';

/** What an error knows beside its message. */
export interface ErrorDetails {
  /** What the server or the network said. */
  readonly cause?: string | undefined;
  /** The lock's name. */
  readonly lockName?: string | undefined;
  /** What was being done; `acquire` if it is left out. */
  readonly operation?: Operation | undefined;
  /** Who held the lock. */
  readonly holder?: Holder | undefined;
  /** Why the lease was lost. */
  readonly reason?: LostReason | undefined;
  /** The server that has to do with it. */
  readonly node?: string | undefined;
  /** Whether the same call may go well later; false if it is left out. */
  readonly retryable?: boolean | undefined;
  /** Whether the lock was skipped; false if it is left out. */
  readonly skipped?: boolean | undefined;
}

/** The root of all errors that Steadlock raises. Never contains a password. */
export class SteadlockError extends Error {
  /** The kind; the class name is the kind and `Error`. */
  readonly kind: ErrorKind;
  /** The kind as a code: `STEADLOCK_LOCK_TIMEOUT` for `LockTimeout`. */
  readonly code: string;
  /** The lock's name, without the userinfo of a URL; `null` if no lock was involved. */
  readonly lockName: string | null;
  /** What was being done. */
  readonly operation: Operation;
  /**
   * The server that did not answer, or that is set up so that locks cannot work: its address without user and
   * password, of several primaries all; `null` if no server has to do with it.
   */
  readonly node: string | null;
  /** Whether the same call may go well later though nobody changes anything. */
  readonly retryable: boolean;
  /**
   * Whether the lock was skipped: its server is unavailable, and what the lock guards was not to run without it, as
   * `onUnavailable: 'skip'` says. Only of `UnavailableError`.
   */
  readonly skipped: boolean;
  /**
   * What the server or the network said, or why nothing came, without advice: a text. Of `LockLostError`, how the
   * lease was lost. `undefined` if nothing of that kind is behind it: a bad argument, a closed client.
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

  /** The fields for `JSON.stringify` and structured logs: the message too, which an `Error` alone leaves out. */
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
  /** Who held the lock at the server's last answer; `null` if that was another part of this client. */
  readonly holder: Holder | null;

  constructor(message: string, details: ErrorDetails = {}) {
    super('LockTimeout', message, details);
    this.holder = details.holder ?? null;
  }
}

/** The caller does not hold what it wants to release or extend. */
export class NotOwnerError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('NotOwner', message, details);
  }
}

/** The lease ended before its holder was done with it. */
export class LockLostError extends SteadlockError {
  /** Why, if that is known. */
  readonly reason: LostReason | null;

  constructor(message: string, details: ErrorDetails = {}) {
    super('LockLost', message, details);
    this.reason = details.reason ?? null;
  }
}

/** The server did not answer in time, could not be reached, or cannot serve for now. */
export class UnavailableError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('Unavailable', message, details);
  }
}

/** The server, the URL or a key is set up in a way that the lock cannot work with. */
export class MisconfiguredError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('Misconfigured', message, details);
  }
}

/** An argument is of the wrong type or out of its range. Nothing was sent. */
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

/** The object was made before a `fork` of the process and does not work in the child. */
export class ForkedError extends SteadlockError {
  constructor(message: string, details?: ErrorDetails) {
    super('Forked', message, details);
  }
}

/** The class of each kind. `Cancelled` has none: Node's own idiom is `signal.reason`. */
const CLASSES: Record<
  Exclude<ErrorKind, 'Cancelled'>,
  new (
    message: string,
    details?: ErrorDetails,
  ) => SteadlockError
> = {
  LockTimeout: LockTimeoutError,
  NotOwner: NotOwnerError,
  LockLost: LockLostError,
  Unavailable: UnavailableError,
  Misconfigured: MisconfiguredError,
  InvalidArgument: InvalidArgumentError,
  Closed: ClosedError,
  Forked: ForkedError,
};

/** @internal The error for one of the core's. */
export function errorOf(failure: NativeFailure): SteadlockError {
  const { kind, message, holder } = failure;
  const details = {
    ...failure,
    operation: failure.operation as Operation,
    holder: holder && holderOf(holder),
    reason: failure.reason as LostReason | undefined,
  };
  const Class = CLASSES[kind as keyof typeof CLASSES];
  return Class ? new Class(message, details) : new SteadlockError(kind as ErrorKind, message, details);
}

/** @internal A holder as users see it. */
export function holderOf({ owner, remainingMs, client }: NativeHolder): Holder {
  return { owner, remainingMs: remainingMs ?? null, client: client ? clientInfoOf(client) : null };
}

function clientInfoOf(client: NativeClientInfo): ClientInfo {
  return Object.freeze({ ...client, since: new Date(client.since * 1_000) });
}

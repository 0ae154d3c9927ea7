// The events of a client's connections and leases, for the program's listeners.

import { type Emitter, emitter } from './emitter.js';
import type { LostReason } from './errors.js';
import type { NativeObservation } from './native.js';

/** An event. Times are in milliseconds. A field that is not known or does not apply is left out. */
export interface Observation {
  /**
   * `error`: a lock is lost while its holder relies on it; `warn`: a failure that may pass, or a loss by `maxHoldMs`;
   * `info`: a failure has passed, or a fixed lease has expired.
   */
  readonly level: 'info' | 'warn' | 'error';
  /** One sentence for a log, without secrets. */
  readonly message: string;
  /** The lock's name as messages show it. */
  readonly lock?: string;
  /** The lock's kind. */
  readonly kind?: string;
  /** The server, without credentials. */
  readonly server?: string;
  /** The reason for the loss of a lease. */
  readonly reason?: LostReason;
  /** The cause of a failure, as text. */
  readonly cause?: string;
  /** The connection: the one for calls or the one for renewals. */
  readonly link?: 'calls' | 'renewals';
  /** The lease's number within the client. */
  readonly lease?: number;
  /** How long a lost lease was held. */
  readonly heldMs?: number;
  /** For how long the holder can still rely on a lease whose renewal failed. */
  readonly leftMs?: number;
  /** For how long a connection has been missing, or was missing. */
  readonly missingMs?: number;
  /** For how long a circuit breaker was open. */
  readonly openMs?: number;
  /** How far a server's clock has jumped ahead. */
  readonly aheadMs?: number;
  /** The duration of the first renewal that succeeded again. */
  readonly tookMs?: number;
  /** The number of renewals or attempts to connect that have failed in a row. */
  readonly failures?: number;
  /** The number of equal events since the last one that was reported. */
  readonly unsaid?: number;
}

/**
 * The events of a client. A failure that continues is reported at once, then at growing intervals, in the end once a
 * minute.
 */
export interface ClientEvents {
  /** A lease is lost. This event is for a log; the holder uses `Lease.signal`. */
  lost: [observation: Observation];
  /** A renewal failed, and is repeated. */
  renewalFailing: [observation: Observation];
  /** Renewals succeed again. */
  renewed: [observation: Observation];
  /** The connection to a server is lost. The client tries to connect again. */
  disconnected: [observation: Observation];
  /** An attempt to connect again failed. */
  connectFailing: [observation: Observation];
  /** The connection to a server works again. */
  connected: [observation: Observation];
  /** The circuit breaker of a server opened: acquisitions on that server are not attempted. */
  breakerOpened: [observation: Observation];
  /** The circuit breaker of a server closed again. */
  breakerClosed: [observation: Observation];
  /**
   * The clock of a server has jumped ahead, or a server with a faster clock has become the primary: older records end
   * early.
   */
  clockAhead: [observation: Observation];
}

/** Emits the events of one client. */
export class Observations {
  readonly emitter: Emitter = emitter();

  /** Whether the program has a listener for any event. */
  get hasListeners(): boolean {
    return this.emitter.eventNames().length > 0;
  }

  /**
   * Emits an event in a microtask of its own, so that an error of a listener does not keep other callers from their
   * replies.
   */
  emit({ level, message, fields }: NativeObservation): void {
    const named = Object.entries(fields).map(([name, value]) => [camelCase(name), value]);
    const { event, ...rest } = Object.fromEntries(named);
    const observation = { level, message, ...rest } as Observation;
    queueMicrotask(() => this.emitter.emit(camelCase(event) as keyof ClientEvents, observation));
  }
}

function camelCase(name: string): string {
  return name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}

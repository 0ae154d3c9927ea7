// What happens to a client's connections and leases, for those who listen.

import { type Emitter, emitter } from './emitter.js';
import type { LostReason } from './errors.js';
import type { NativeObservation } from './native.js';

/** Something that happened. Times are milliseconds; what is not known or does not apply is left out. */
export interface Observation {
  /** `error`: a lock is lost while its holder relies on it; `warn`: something fails; `info`: it is well again. */
  readonly level: 'info' | 'warn' | 'error';
  /** One sentence for a log, without secrets. */
  readonly message: string;
  /** The lock's name as messages show it. */
  readonly lock?: string;
  /** The lock's kind. */
  readonly kind?: string;
  /** The server, without credentials. */
  readonly server?: string;
  /** Why a lease was lost. */
  readonly reason?: LostReason;
  /** Why something failed, in words. */
  readonly cause?: string;
  /** Which connection: the one for calls or the one for renewals. */
  readonly link?: 'calls' | 'renewals';
  /** The lease's number within the client. */
  readonly lease?: number;
  /** How long a lost lease was held. */
  readonly heldMs?: number;
  /** How long a lease whose renewal failed may still be relied on. */
  readonly leftMs?: number;
  /** How long a connection was, or is, missing. */
  readonly missingMs?: number;
  /** How long a circuit breaker was open. */
  readonly openMs?: number;
  /** How far a server's clock is ahead of what it was. */
  readonly aheadMs?: number;
  /** How long the renewal took that succeeded again. */
  readonly tookMs?: number;
  /** How many renewals or attempts to connect in a row have failed. */
  readonly failures?: number;
  /** How often the same was seen and not told since the last time. */
  readonly unsaid?: number;
}

/**
 * What a client tells those who listen. Trouble that goes on is told at once, then ever more rarely, at last once a
 * minute.
 */
export interface ClientEvents {
  /** A lease is lost. `Lease.signal` tells its holder; this is for a log. */
  lost: [observation: Observation];
  /** A renewal came to nothing, and is repeated. */
  renewalFailing: [observation: Observation];
  /** Renewals succeed again. */
  renewed: [observation: Observation];
  /** The connection to a server is lost, and is tried for again. */
  disconnected: [observation: Observation];
  /** There is still none. */
  connectFailing: [observation: Observation];
  /** It is back. */
  connected: [observation: Observation];
  /** The circuit breaker of a server is open: nobody waits for that server. */
  breakerOpened: [observation: Observation];
  /** It is closed again. */
  breakerClosed: [observation: Observation];
  /** The clock of a server is ahead of what it was, or of that of the server before it: its records end early. */
  clockAhead: [observation: Observation];
}

/** The emitter of one client, and what it emits. */
export class Observations {
  readonly emitter: Emitter = emitter();

  /** Whether anybody listens to anything. */
  get isHeard(): boolean {
    return this.emitter.eventNames().length > 0;
  }

  /** Tells those who listen. In a turn of its own: what they throw is not to hurt others that wait for an answer. */
  tell({ level, message, fields }: NativeObservation): void {
    const named = Object.entries(fields).map(([name, value]) => [camelCase(name), value]);
    const { event, ...rest } = Object.fromEntries(named);
    const observation = { level, message, ...rest } as Observation;
    queueMicrotask(() => this.emitter.emit(camelCase(event) as keyof ClientEvents, observation));
  }
}

function camelCase(name: string): string {
  return name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase());
}

/// <reference types="node" preserve="true" />

import { EventEmitter } from 'node:events';
import type { ClientEvents } from './observations.js';

/** What tells of a client's connections and leases. */
export type Emitter = EventEmitter<ClientEvents>;

/** @internal One that nobody listens to. */
export function emitter(): Emitter {
  return new EventEmitter<ClientEvents>();
}

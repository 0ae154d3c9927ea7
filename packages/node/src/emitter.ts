/// <reference types="node" preserve="true" />

import { EventEmitter } from 'node:events';
import type { ClientEvents } from './observations.js';

/** Emits the events of a client's connections and leases. */
export type Emitter = EventEmitter<ClientEvents>;

/** @internal Makes an emitter without listeners. */
export function emitter(): Emitter {
  return new EventEmitter<ClientEvents>();
}

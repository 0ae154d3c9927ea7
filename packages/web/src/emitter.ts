import type { ClientEvents } from './observations.js';

type Listener<Name extends keyof ClientEvents> = (...observation: ClientEvents[Name]) => void;

/** What tells of a client's connections and leases, with the methods that Node's `EventEmitter` has for it. */
export class Emitter {
  readonly #listeners = new Map<keyof ClientEvents, Listener<keyof ClientEvents>[]>();

  /** Calls `listener` at each event of this name. */
  on<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): this {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener]);
    return this;
  }

  /** Calls `listener` at the next event of this name, and no more. */
  once<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): this {
    const once: Listener<Name> = (...observation) => {
      this.off(name, once);
      listener(...observation);
    };
    return this.on(name, once);
  }

  /** Calls it no more. */
  off<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): this {
    const listeners = this.#listeners.get(name) ?? [];
    const at = listeners.lastIndexOf(listener);
    if (at >= 0)
      this.#listeners.set(
        name,
        listeners.filter((_, place) => place !== at),
      );
    return this;
  }

  /** @internal */
  emit(name: keyof ClientEvents, observation: ClientEvents[keyof ClientEvents][0]): boolean {
    const listeners = this.#listeners.get(name) ?? [];
    for (const listener of listeners) listener(observation);
    return listeners.length > 0;
  }

  /** @internal The events that somebody listens to. */
  eventNames(): string[] {
    return [...this.#listeners].filter(([, listeners]) => listeners.length > 0).map(([name]) => name);
  }
}

/** @internal One that nobody listens to. */
export function emitter(): Emitter {
  return new Emitter();
}

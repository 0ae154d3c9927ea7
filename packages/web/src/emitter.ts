import type { ClientEvents } from './observations.js';

type Listener<Name extends keyof ClientEvents> = (...observation: ClientEvents[Name]) => void;

/** Emits the events of a client's connections and leases. Has the main methods of Node's `EventEmitter`. */
export class Emitter {
  readonly #listeners = new Map<keyof ClientEvents, Listener<keyof ClientEvents>[]>();

  /** Calls `listener` at each event of this name. */
  on<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): this {
    this.#listeners.set(name, [...(this.#listeners.get(name) ?? []), listener]);
    return this;
  }

  /** Calls `listener` at the next event of this name only. */
  once<Name extends keyof ClientEvents>(name: Name, listener: Listener<Name>): this {
    const once: Listener<Name> = (...observation) => {
      this.off(name, once);
      listener(...observation);
    };
    return this.on(name, once);
  }

  /** Removes a listener. */
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

  /** @internal Returns the names of the events that have listeners. */
  eventNames(): string[] {
    return [...this.#listeners].filter(([, listeners]) => listeners.length > 0).map(([name]) => name);
  }
}

/** @internal Makes an emitter without listeners. */
export function emitter(): Emitter {
  return new Emitter();
}

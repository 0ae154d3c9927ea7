// Who listens to which channel, where a client has one listener for all.

/** What subscribes. */
export interface Subscriber {
  subscribe(channel: string): PromiseLike<unknown>;
  unsubscribe(channel: string): PromiseLike<unknown>;
}

type Listener = (message: string) => void;

export class Channels {
  readonly #subscriber: Subscriber;
  readonly #listeners = new Map<string, Set<Listener>>();

  constructor(subscriber: Subscriber) {
    this.#subscriber = subscriber;
  }

  /** A message came. */
  heard(channel: string, message: string): void {
    for (const listener of this.#listeners.get(channel) ?? []) listener(message);
  }

  /** Listens; gives what ends it, once the server has confirmed it. */
  async subscribe(channel: string, onMessage: Listener): Promise<() => Promise<void>> {
    // Each has an entry of its own, though two give the same function.
    const listener: Listener = (message) => onMessage(message);
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners.add(listener));
    try {
      await this.#subscriber.subscribe(channel);
    } catch (error) {
      // Others that listened have gone meanwhile.
      if (this.#remove(channel, listener)) this.#subscriber.unsubscribe(channel).then(undefined, () => {});
      throw error;
    }
    return async () => {
      if (this.#remove(channel, listener)) await this.#subscriber.unsubscribe(channel);
    };
  }

  /** Whether nobody listens to the channel any more. */
  #remove(channel: string, listener: Listener): boolean {
    const listeners = this.#listeners.get(channel);
    listeners?.delete(listener);
    if (listeners?.size !== 0) return false;
    return this.#listeners.delete(channel);
  }
}

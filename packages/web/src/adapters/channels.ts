// The subscriptions of a Redis client that has one listener for all channels.

/** The part of a Redis client that subscribes. */
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

  /** Passes a message to the listeners of its channel. */
  dispatch(channel: string, message: string): void {
    for (const listener of this.#listeners.get(channel) ?? []) listener(message);
  }

  /** Subscribes to a channel. When the server has confirmed, returns a function that ends the subscription. */
  async subscribe(channel: string, onMessage: Listener): Promise<() => Promise<void>> {
    // Each subscription needs an entry of its own, even if two pass the same function.
    const listener: Listener = (message) => onMessage(message);
    const listeners = this.#listeners.get(channel) ?? new Set();
    this.#listeners.set(channel, listeners.add(listener));
    try {
      await this.#subscriber.subscribe(channel);
    } catch (error) {
      // If this was the last listener, the channel must be unsubscribed here. A listener that was removed before left
      // the channel subscribed, because this one was registered then.
      if (this.#remove(channel, listener)) this.#subscriber.unsubscribe(channel).then(undefined, () => {});
      throw error;
    }
    return async () => {
      if (this.#remove(channel, listener)) await this.#subscriber.unsubscribe(channel);
    };
  }

  /** Removes a listener. Returns whether the channel has no listener any more. */
  #remove(channel: string, listener: Listener): boolean {
    const listeners = this.#listeners.get(channel);
    listeners?.delete(listener);
    if (listeners?.size !== 0) return false;
    return this.#listeners.delete(channel);
  }
}

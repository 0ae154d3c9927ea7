// Subscribes to channels of the server for all clients, with a single stream of events.

export class Subscriptions {
  #listeners = new Set();
  #source;
  /** The channels of the stream. */
  #channels = new Set();
  #isOpening = false;

  /**
   * Subscribes to a channel. `handler` is called with `subscribe,CHANNEL,1` once the server has confirmed the
   * subscription, and then with each `message,CHANNEL,TEXT`. Returns a function that ends the subscription.
   */
  subscribe(channel, handler) {
    const listener = { channel, handler, isConfirmed: false };
    this.#listeners.add(listener);
    if (!this.#isOpening) this.#confirmOrOpen();
    return () => this.#listeners.delete(listener);
  }

  /** Confirms the channels of the current stream. Opens a new stream if a listener needs another channel. */
  #confirmOrOpen() {
    const waiting = Array.from(this.#listeners).filter(({ isConfirmed }) => !isConfirmed);
    for (const listener of waiting) {
      if (!this.#channels.has(listener.channel)) return this.#open();
      listener.isConfirmed = true;
      listener.handler(`subscribe,${listener.channel},1`);
    }
  }

  #open() {
    this.#isOpening = true;
    const channels = new Set(Array.from(this.#listeners, ({ channel }) => channel));
    const source = new EventSource(`/subscribe/${Array.from(channels, encodeURIComponent).join('/')}`);
    let unconfirmed = channels.size;
    source.onmessage = ({ data }) => {
      if (data.startsWith('message,')) return this.#deliver(data);
      unconfirmed -= 1;
      if (unconfirmed !== 0) return;
      // The old stream ends only now, so no message is missed. A message that arrives twice does no harm.
      this.#source?.close();
      this.#source = source;
      this.#channels = channels;
      this.#isOpening = false;
      this.#confirmOrOpen();
    };
  }

  #deliver(data) {
    for (const { channel, handler } of [...this.#listeners]) if (data.startsWith(`message,${channel},`)) handler(data);
  }
}

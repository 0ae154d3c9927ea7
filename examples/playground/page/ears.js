// Listens to channels of the server for all clients, by one stream of events.

export class Ears {
  #listeners = new Set();
  #source;
  /** What the stream is about. */
  #channels = new Set();
  #isOpening = false;

  /** Hears `subscribe,CHANNEL,1` once the server has confirmed it, then `message,CHANNEL,TEXT`. Gives what ends it. */
  listen(channel, hear) {
    const listener = { channel, hear, isConfirmed: false };
    this.#listeners.add(listener);
    if (!this.#isOpening) this.#confirmOrOpen();
    return () => this.#listeners.delete(listener);
  }

  /** A stream is good for the channels that it was opened with; others need a new one. */
  #confirmOrOpen() {
    const waiting = Array.from(this.#listeners).filter(({ isConfirmed }) => !isConfirmed);
    for (const listener of waiting) {
      if (!this.#channels.has(listener.channel)) return this.#open();
      listener.isConfirmed = true;
      listener.hear(`subscribe,${listener.channel},1`);
    }
  }

  #open() {
    this.#isOpening = true;
    const channels = new Set(Array.from(this.#listeners, ({ channel }) => channel));
    const source = new EventSource(`/subscribe/${Array.from(channels, encodeURIComponent).join('/')}`);
    let unconfirmed = channels.size;
    source.onmessage = ({ data }) => {
      if (data.startsWith('message,')) return this.#tell(data);
      unconfirmed -= 1;
      if (unconfirmed !== 0) return;
      // The old one ends only now, so nothing is missed. What is heard twice does no harm.
      this.#source?.close();
      this.#source = source;
      this.#channels = channels;
      this.#isOpening = false;
      this.#confirmOrOpen();
    };
  }

  #tell(data) {
    for (const { channel, hear } of [...this.#listeners]) if (data.startsWith(`message,${channel},`)) hear(data);
  }
}

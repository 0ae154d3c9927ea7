// A client's connection to the server: a `fetch` that can be cut.

const encoder = new TextEncoder();

export class Connection {
  #page;
  #isCut = false;
  #nextId = 1;
  /** For each request in progress, a function that makes it fail. */
  #inProgress = new Set();
  /** For each subscription by its number, a function that delivers an event. */
  #subscriptions = new Map();

  /** `page` has functions that report calls to the page, and that subscribe there for this client. */
  constructor(page) {
    this.#page = page;
  }

  /** Cuts or restores the connection. While it is cut, new requests are refused. Requests in progress fail at once. */
  set isCut(isCut) {
    this.#isCut = isCut;
    if (isCut) for (const fail of [...this.#inProgress]) fail();
  }

  async send(url, init) {
    if (this.#isCut) {
      this.#page.onCall(false);
      throw new TypeError('the connection is cut');
    }
    const channel = new URL(url).pathname.match(/^\/subscribe\/(.*)$/)?.[1];
    return channel === undefined ? this.#request(url, init) : this.#subscribe(decodeURIComponent(channel), init.signal);
  }

  async #request(url, init) {
    const controller = new AbortController();
    const fail = () => controller.abort(new TypeError('the connection is cut'));
    this.#inProgress.add(fail);
    try {
      const response = await fetch(url, { ...init, signal: controller.signal });
      const text = await response.text();
      this.#page.onCall(true);
      return new Response(text, response);
    } catch (error) {
      this.#page.onCall(false);
      throw error;
    } finally {
      this.#inProgress.delete(fail);
    }
  }

  /**
   * Subscribes through the page, which listens for all clients with one request. A browser opens at most six
   * connections to one server, and each subscription would use one of them.
   */
  #subscribe(channel, signal) {
    const id = this.#nextId++;
    const end = (error) => {
      this.#inProgress.delete(fail);
      this.#subscriptions.delete(id);
      this.#page.unsubscribe(id);
      controller.error(error);
    };
    const fail = () => end(new TypeError('the connection is cut'));
    let controller;
    const body = new ReadableStream({
      start: (created) => {
        controller = created;
      },
    });
    signal.addEventListener('abort', () => {
      if (this.#subscriptions.has(id)) end(signal.reason);
    });
    this.#inProgress.add(fail);
    this.#subscriptions.set(id, (text) => controller.enqueue(encoder.encode(`data: ${text}\n\n`)));
    this.#page.subscribe(id, channel);
    return new Response(body);
  }

  /** Delivers an event to a subscription. */
  deliver(id, text) {
    this.#subscriptions.get(id)?.(text);
  }
}

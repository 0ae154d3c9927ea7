// A client's connection to the server: a `fetch` that can be cut.

const encoder = new TextEncoder();

export class Line {
  #page;
  #isCut = false;
  #nextId = 1;
  /** For each request in progress, a function that makes it fail. */
  #underWay = new Set();
  /** For each subscription by its number, a function that delivers an event. */
  #subscriptions = new Map();

  /** `page` is informed of calls, and subscribes for this client. */
  constructor(page) {
    this.#page = page;
  }

  /** Cuts or restores the connection. While it is cut, new requests are refused. Requests in progress fail at once. */
  set isCut(isCut) {
    this.#isCut = isCut;
    if (isCut) for (const fail of [...this.#underWay]) fail();
  }

  async send(url, init) {
    if (this.#isCut) {
      this.#page.called(false);
      throw new TypeError('the line is cut');
    }
    const channel = new URL(url).pathname.match(/^\/subscribe\/(.*)$/)?.[1];
    return channel === undefined ? this.#request(url, init) : this.#subscribe(decodeURIComponent(channel), init.signal);
  }

  async #request(url, init) {
    const ending = new AbortController();
    const fail = () => ending.abort(new TypeError('the line is cut'));
    this.#underWay.add(fail);
    try {
      const response = await fetch(url, { ...init, signal: ending.signal });
      const text = await response.text();
      this.#page.called(true);
      return new Response(text, response);
    } catch (error) {
      this.#page.called(false);
      throw error;
    } finally {
      this.#underWay.delete(fail);
    }
  }

  /**
   * Subscribes through the page, which listens for all clients with one request. A browser opens at most six
   * connections to one server, and each subscription would use one of them.
   */
  #subscribe(channel, signal) {
    const id = this.#nextId++;
    const end = (error) => {
      this.#underWay.delete(fail);
      this.#subscriptions.delete(id);
      this.#page.unlisten(id);
      controller.error(error);
    };
    const fail = () => end(new TypeError('the line is cut'));
    let controller;
    const body = new ReadableStream({
      start: (given) => {
        controller = given;
      },
    });
    signal.addEventListener('abort', () => {
      if (this.#subscriptions.has(id)) end(signal.reason);
    });
    this.#underWay.add(fail);
    this.#subscriptions.set(id, (text) => controller.enqueue(encoder.encode(`data: ${text}\n\n`)));
    this.#page.listen(id, channel);
    return new Response(body);
  }

  /** Delivers an event to a subscription. */
  heard(id, text) {
    this.#subscriptions.get(id)?.(text);
  }
}

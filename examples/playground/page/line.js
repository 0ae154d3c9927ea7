// A client's line to the server: a `fetch` that can be cut.

const encoder = new TextEncoder();

export class Line {
  #page;
  #isCut = false;
  #nextId = 1;
  /** What is under way, each by what ends it. */
  #underWay = new Set();
  /** Subscriptions by number, each by what feeds it. */
  #subscriptions = new Map();

  /** `page` hears of calls, and listens for this client. */
  constructor(page) {
    this.#page = page;
  }

  /** Cut: every request is refused, and what is under way fails, answered or not. */
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
   * The page listens for all clients by one request: a browser opens six connections to one server at the most, and
   * each subscription would keep one of them.
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

  /** An event came for a subscription. */
  heard(id, text) {
    this.#subscriptions.get(id)?.(text);
  }
}

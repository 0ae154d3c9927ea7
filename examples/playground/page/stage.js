// Holds the clients, the server's records and the stores, and changes all of them together.

import { Client } from './client.js';
import { History } from './history.js';
import { forgetTokens, NAMES, now, numberOf } from './names.js';
import { command, rowsOf, Server } from './server.js';
import { Store } from './store.js';
import { Subscriptions } from './subscriptions.js';

/** The amount that each client adds to the account. */
const AMOUNTS = { Ada: 10, Ben: 25, Cleo: 5, Dan: 40 };
/** The side of a read-write lock that each client uses. */
const ROLES = { Ada: 'write', Ben: 'write', Cleo: 'read', Dan: 'read' };

export class Stage extends EventTarget {
  history = new History();
  subscriptions = new Subscriptions();
  server = new Server((at) => this.#onRecordsRead(at));
  stores = { fenced: new Store(true), unfenced: new Store(false) };
  settings = { kind: 'lock', leaseMs: 3_000, renew: true };
  isStopped = false;
  /** Whether a scene plays. Then only its script controls the clients. */
  isPlaying = false;
  /** The lines of the log, the oldest first: `{ at, text }`. */
  logLines = [];
  /** Separates the names of this page from those of other pages on the same server. */
  #prefix = `${crypto.randomUUID().slice(0, 4)}:`;
  #run = 0;

  #pace;

  /**
   * @param frames each client's iframe, by name
   * @param pace the factor for the time that contending clients work and rest; 1 is good to watch
   */
  constructor(frames, pace) {
    super();
    this.#pace = pace;
    this.clients = Object.fromEntries(NAMES.map((name) => [name, new Client(this, name, frames[name])]));
    addEventListener('message', ({ data, origin, source }) => {
      const client = this.clients[data?.name];
      if (origin === location.origin && source === frames[data?.name]?.contentWindow) client.onMessage(data);
    });
    for (const client of this.all) client.requestHello();
  }

  get all() {
    return Object.values(this.clients);
  }

  /** The name of the lock on the server. */
  get lockName() {
    return `${this.#prefix}${this.#lock}`;
  }

  get #lock() {
    return `stock-${this.#run}`;
  }

  /** Starts again with new clients, a new lock, and both stores as at the beginning. */
  async reset(settings) {
    this.core ??= await compile();
    this.settings = { ...this.settings, ...settings };
    this.#run += 1;
    this.history.clear();
    forgetTokens();
    this.logLines = [];
    this.dispatchEvent(new Event('reset'));
    for (const store of Object.values(this.stores)) store.clear();
    this.isStopped = false;
    for (const client of this.all) client.isCut = false;
    this.server.watch(this.settings.kind, this.#prefix, this.#lock);
    await Promise.all(this.all.map((client) => client.start(this.#settingsOf(client.name))));
    await this.until(() => this.all.every(({ phase }) => phase === 'idle'));
  }

  #settingsOf(name) {
    const own = { name, amount: AMOUNTS[name], role: ROLES[name] };
    return { ...this.settings, ...own, prefix: this.#prefix, lock: this.#lock, pace: this.#pace };
  }

  /** Cuts off all clients, as if the server had stopped, or connects them again. The server itself keeps running. */
  stop(isStopped) {
    this.isStopped = isStopped;
    if (isStopped) this.history.begin('server', 'stopped', now());
    else this.history.end('server', 'stopped', now());
    this.log(isStopped ? 'The server is stopped.' : 'The server answers again.', now());
    for (const client of this.all) client.updateConnection();
    this.changed();
  }

  async loseData() {
    await command('FLUSHALL');
    this.history.moment('server', 'flush', now(), 'data lost');
    this.log('The server has lost its data.', now(), 'The server has lost its data.');
    this.changed();
  }

  /** Writes to the stores for a client. Returns the answer of each store. */
  write(who, token, amount, values, at) {
    const answer = {};
    for (const [name, store] of Object.entries(this.stores)) {
      if (values[name] === undefined) continue;
      const { outcome, lost, highestToken } = store.write({ who, value: values[name], amount, token });
      answer[name] = outcome;
      if (outcome === 'refused') {
        const text = `The fenced store refuses ${who}’s late write: token ${numberOf(token)} < ${numberOf(highestToken)}.`;
        this.log(text, at, text);
      } else if (lost > 0) {
        const text = `The unfenced store accepts ${who}’s late write: ${lost} are lost.`;
        this.log(text, at, text);
      }
    }
    const isRefused = answer.fenced === 'refused';
    this.history.moment(who, isRefused ? 'refused' : 'written', at, isRefused ? '✗' : '✓');
    this.changed();
    return answer;
  }

  /** Adds a line to the log. `announcement` is its text for screen readers. */
  log(text, at, announcement) {
    this.logLines.push({ at, text });
    if (this.logLines.length > 200) this.logLines.shift();
    this.dispatchEvent(new CustomEvent('log', { detail: { text, announcement } }));
  }

  /** Reports a change of the state. */
  changed() {
    this.dispatchEvent(new Event('change'));
  }

  /** Tells every client whether a scene plays. */
  play(isPlaying) {
    this.isPlaying = isPlaying;
    for (const client of this.all) client.show();
    this.changed();
  }

  /** Waits until the condition is true. Rejects if the signal aborts. */
  until(condition, signal) {
    return new Promise((resolve, reject) => {
      const end = (settle) => {
        this.removeEventListener('change', check);
        signal?.removeEventListener('abort', abort);
        settle();
      };
      const check = () => condition() && end(resolve);
      const abort = () => end(() => reject(signal.reason));
      if (signal?.aborted) return reject(signal.reason);
      this.addEventListener('change', check);
      signal?.addEventListener('abort', abort);
      check();
    });
  }

  /** Updates the history after the server's records were read. Each holder has a span in a separate row. */
  #onRecordsRead(at) {
    const rows = rowsOf(this.settings.kind);
    const holders = [...this.server.held];
    rows.forEach((row, index) => {
      const lane = `server/${index}`;
      const current = this.history.current(lane, 'record');
      const same = holders.findIndex((one) => one.row === row && one.who === current?.who);
      if (same >= 0) current.until = at + holders.splice(same, 1)[0].left;
      else this.history.end(lane, 'record', at);
    });
    for (const { row, who, left: leftMs } of holders) {
      const free = rows.findIndex((name, i) => name === row && !this.history.current(`server/${i}`, 'record'));
      if (free >= 0) this.history.begin(`server/${free}`, 'record', at, { who, until: at + leftMs });
    }
    this.changed();
  }
}

/** Compiles the core, once for all workers. */
function compile() {
  return WebAssembly.compileStreaming(fetch('steadlock/steadlock.wasm'));
}

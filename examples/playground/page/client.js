// A client as the page sees it: the state that its worker reports, and the actions on it.
//
//   off ─► idle ─► waits ─► holds ─► idle          killed in any state: dead, until it is started again
//                    ▲         └───► lost
//                    └─────────────────┘

import { now, seconds, tokenText } from './names.js';
import { command } from './server.js';

/** The reasons of a loss, each as a short text and as a longer one. */
const REASONS = {
  expired: ['its deadline passed', 'its deadline passed without a renewal'],
  removed: ['no record of it', 'the server has no record of it'],
  stolen: ['another client’s now', 'the record is another client’s now'],
  max_hold: ['longest hold reached', 'its longest hold was reached'],
  closed: ['client closed', 'the client was closed'],
};

export class Client {
  phase = 'off';
  /** The deadline of its lease, by its own clock. */
  until = 0;
  /** The time at which its wait began. */
  since = 0;
  token = null;
  reason = '';
  isPaused = false;
  isCut = false;
  isRepeating = false;
  /** The times of its last grant and of the beginning of its last release. */
  grantedAt = 0;
  releasedAt = 0;
  /** The number of its calls, answered or not. */
  calls = 0;
  /** The answers of the stores to its writes: each store answers `accepted` or `refused`. */
  written = [];
  #stage;
  #frame;
  #loaded;
  #isLoaded = new Promise((resolve) => {
    this.#loaded = resolve;
  });
  #subscriptions = new Map();
  /** The pause that it was ordered to make, until it has ended. */
  #pause;
  /** Whether its worker has released the lease that it lost last. */
  #isReleased = true;
  /** The number of its current worker. Messages of an earlier worker may still arrive, and are ignored. */
  #run = 0;

  constructor(stage, name, frame) {
    this.#stage = stage;
    this.name = name;
    this.#frame = frame;
  }

  get document() {
    return this.#frame.contentDocument;
  }

  /** Asks the frame to report that it is loaded. */
  requestHello() {
    this.#post({ do: 'hello' });
  }

  /** Whether it neither holds the lock nor waits for it. */
  get isIdle() {
    return this.phase === 'idle' || (this.phase === 'lost' && this.#isReleased);
  }

  /** Starts a new worker, with a new client of the library in it. */
  async start(settings) {
    await this.#isLoaded;
    this.#forget(now());
    Object.assign(this, { phase: 'off', isRepeating: false, written: [], calls: 0, token: null });
    this.settings = settings;
    const message = { do: 'start', settings, core: this.#stage.core, isCut: this.#isCutFromServer };
    this.#run += 1;
    this.#post({ do: 'start', message, run: this.#run });
    this.#changed();
  }

  /** Ends its worker at once. */
  kill() {
    const at = now();
    this.#run += 1;
    this.#post({ do: 'kill' });
    this.#forget(at);
    this.#stage.history.begin(this.name, 'dead', at);
    this.#stage.log(`${this.name} is killed.`, at);
    this.phase = 'dead';
    this.#changed();
  }

  /**
   * Makes the client acquire the lock `turns` times, and work for `workMs` each time. Without `workMs`, it works until
   * `finish` is called. With `untilFinished`, this applies to the first time only.
   */
  acquire(options = {}) {
    this.#send({ do: 'acquire', ...options });
  }

  finish() {
    this.#send({ do: 'finish' });
  }

  cancel() {
    this.#send({ do: 'cancel' });
  }

  repeat(isOn) {
    this.isRepeating = isOn;
    this.#send({ do: 'repeat', isOn });
  }

  /** Pauses the client. A holder pauses after its last check of the lease and before its write, the worst moment. */
  pause() {
    if (this.#pause) return;
    const id = crypto.randomUUID();
    this.#pause = { key: `${this.settings.prefix}resume:${this.name}`, id };
    this.#send({ do: 'pause', pause: this.#pause });
  }

  /** Ends the pause by a key on the server, because the paused worker receives no messages but can poll the server. */
  async resume() {
    const { key, id } = this.#pause;
    await command('SET', key, id, 'PX', '60000');
  }

  /** Cuts its connection to the server, or restores it. */
  cut(isCut) {
    this.isCut = isCut;
    const { history } = this.#stage;
    if (isCut) history.begin(this.name, 'cut', now());
    else history.end(this.name, 'cut', now());
    this.#stage.log(isCut ? `${this.name} is cut off from the server.` : `${this.name} is connected again.`, now());
    this.updateConnection();
    this.#changed();
  }

  /** Tells its worker whether it can reach the server. */
  updateConnection() {
    this.#send({ do: 'cut', isCut: this.#isCutFromServer });
  }

  /** Handles a button that the visitor pressed in its frame. */
  pressed(action) {
    if (action === 'kill' && this.phase === 'dead') return void this.start(this.settings);
    if (action === 'pause' && this.isPaused) return void this.resume();
    if (action === 'cut') return this.cut(!this.isCut);
    if (action === 'acquire' && this.isRepeating) return;
    this[action]();
  }

  /** Handles a message of its worker or its frame. */
  onMessage({ what, at, run, ...details }) {
    if (run !== undefined && run !== this.#run) return;
    this.#HANDLERS[what]?.call(this, details, at);
    if (what !== 'called') this.#changed();
  }

  show() {
    const { phase, until, since, reason, isPaused, isCut } = this;
    const token = tokenText(this.token);
    this.#post({ do: 'show', phase, until, since, reason, token, isPaused, isCut, isLocked: this.#stage.isPlaying });
  }

  #HANDLERS = {
    loaded() {
      this.#loaded();
    },
    ready() {
      this.phase = 'idle';
    },
    pressed({ action }) {
      this.pressed(action);
    },
    called({ isAnswered }, at) {
      this.calls += 1;
      this.#stage.history.moment(this.name, isAnswered ? 'call' : 'failure', at, '');
    },
    waits(_, at) {
      Object.assign(this, { phase: 'waits', since: at });
      this.#stage.history.begin(this.name, 'waits', at);
    },
    holds({ token, until }, at) {
      Object.assign(this, { phase: 'holds', token, until, grantedAt: at });
      this.#stage.history.end(this.name, 'waits', at);
      const label = tokenText(token);
      this.#stage.history.begin(this.name, 'holds', at, { until, token, askedAt: this.since });
      const waited = seconds(at - this.since);
      this.#stage.log(
        `${this.name} holds the lock, with ${label}, after ${waited}.`,
        at,
        `${this.name} holds the lock.`,
      );
    },
    renewed({ until }) {
      this.until = until;
      const span = this.#stage.history.current(this.name, 'holds');
      if (span) span.until = until;
    },
    lost({ reason }, at) {
      const { until } = this;
      this.phase = 'lost';
      this.#isReleased = false;
      const [short, long] = REASONS[reason];
      this.reason = short;
      const lostAt = reason === 'expired' ? Math.min(at, until) : at;
      this.lostAt = lostAt;
      this.#stage.history.end(this.name, 'holds', lostAt);
      this.#stage.history.moment(this.name, 'lost', lostAt, 'lost');
      const text = `${this.name} knows that its lease is lost: ${long}.`;
      this.#stage.log(text, at, text);
    },
    releases(_, at) {
      if (this.phase !== 'holds') return;
      // From now on it does not rely on its lease, even if the release fails.
      this.releasedAt = at;
      this.#stage.history.end(this.name, 'holds', Math.min(at, this.until));
      this.#stage.log(`${this.name} releases.`, at);
    },
    released({ outcome }, at) {
      this.#isReleased = true;
      if (this.phase !== 'lost') this.phase = 'idle';
      if (outcome === 'unknown') this.#stage.log(`${this.name} has no answer to its release.`, at);
    },
    failed({ kind }, at) {
      this.#stage.history.end(this.name, 'waits', at);
      if (this.phase !== 'lost') this.phase = 'idle';
      this.#stage.log(
        kind === 'cancelled' ? `${this.name} cancels its wait.` : `${this.name} did not get the lock: ${kind}.`,
        at,
      );
    },
    reads({ id }) {
      const { fenced, unfenced } = this.#stage.stores;
      this.#send({ do: 'answer', id, answer: { fenced: fenced.balance, unfenced: unfenced.balance } });
    },
    writes({ id, token, amount, values }, at) {
      const answer = this.#stage.write(this.name, token, amount, values, at);
      this.written.push(answer);
      this.#send({ do: 'answer', id, answer });
    },
    paused(_, at) {
      this.isPaused = true;
      this.#stage.history.begin(this.name, 'paused', at);
      this.#stage.log(`${this.name} is paused.`, at);
    },
    resumed(_, at) {
      this.isPaused = false;
      this.#pause = undefined;
      const paused = this.#stage.history.end(this.name, 'paused', at);
      this.#stage.log(`${this.name} continues after ${seconds(at - paused.from)}.`, at);
    },
    subscribe({ id, channel }) {
      const handler = (text) => this.#send({ do: 'message', id, text });
      this.#subscriptions.set(id, this.#stage.subscriptions.subscribe(channel, handler));
    },
    unsubscribe({ id }) {
      this.#subscriptions.get(id)?.();
      this.#subscriptions.delete(id);
    },
    crashed({ text }) {
      throw new Error(`${this.name}: ${text}`);
    },
  };

  get #isCutFromServer() {
    return this.isCut || this.#stage.isStopped;
  }

  /** Ends everything that its former worker had begun. */
  #forget(at) {
    const { history } = this.#stage;
    for (const kind of ['waits', 'holds', 'paused', 'dead']) history.end(this.name, kind, at);
    for (const unsubscribe of this.#subscriptions.values()) unsubscribe();
    this.#subscriptions.clear();
    this.isPaused = false;
    this.#pause = undefined;
  }

  #changed() {
    this.show();
    this.#stage.changed();
  }

  #send(message) {
    this.#post({ do: 'forward', message });
  }

  #post(message) {
    this.#frame.contentWindow.postMessage(message, location.origin);
  }
}

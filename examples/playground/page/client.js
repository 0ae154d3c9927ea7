// A client as the page sees it: what it says of itself, and what can be done to it.
//
//   off ─► idle ─► waits ─► holds ─► idle          killed, in any of them: dead, until it is started anew
//                    ▲         └───► lost
//                    └─────────────────┘

import { now, seconds, tokenText } from './names.js';
import { command } from './server.js';

/** Why a lease was lost: in a few words, and in more. */
const REASONS = {
  expired: ['its deadline came', 'its deadline came without a renewal'],
  removed: ['no record of it', 'the server has no record of it'],
  stolen: ['another’s now', 'the record is another’s now'],
  max_hold: ['held long enough', 'it was held as long as it may be'],
  closed: ['client closed', 'the client was closed'],
};

export class Client {
  phase = 'off';
  /** Until when it may rely on its lease, by its own clock. */
  until = 0;
  /** Since when it waits. */
  since = 0;
  token = null;
  reason = '';
  isPaused = false;
  isCut = false;
  isRepeating = false;
  /** When it was granted the lock last, and when it began to release it. */
  grantedAt = 0;
  releasedAt = 0;
  /** Calls that it made, and how many of them were answered. */
  calls = 0;
  /** What becomes of its writes: `taken` or `refused` by the fenced store. */
  written = [];
  #stage;
  #frame;
  #loaded;
  #isLoaded = new Promise((resolve) => {
    this.#loaded = resolve;
  });
  #listening = new Map();
  /** The pause that it was told of, until it goes on. */
  #pause;
  /** Whether what it lost last is over for its worker too. */
  #isReleased = true;
  /** Which of its workers counts; one that is over may still be heard. */
  #run = 0;

  constructor(stage, name, frame) {
    this.#stage = stage;
    this.name = name;
    this.#frame = frame;
  }

  get document() {
    return this.#frame.contentDocument;
  }

  /** Asks its frame whether it is there. */
  greet() {
    this.#post({ do: 'hello' });
  }

  /** Whether it neither holds the lock nor wants it. */
  get isResting() {
    return this.phase === 'idle' || (this.phase === 'lost' && this.#isReleased);
  }

  /** A new worker, with a new client of the library in it. */
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

  /** Ends its worker at once, whatever that does. */
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

  /** Asks for the lock: `turns` times; without `workMs`, and with `isTold` the first time, it works until `finish`. */
  ask(options = {}) {
    this.#tell({ do: 'ask', ...options });
  }

  finish() {
    this.#tell({ do: 'finish' });
  }

  giveUp() {
    this.#tell({ do: 'giveUp' });
  }

  repeat(isOn) {
    this.isRepeating = isOn;
    this.#tell({ do: 'repeat', isOn });
  }

  /** Stands still from now on: a holder after its last look at its lease and before its write, which is the worst moment. */
  pause() {
    if (this.#pause) return;
    const id = crypto.randomUUID();
    this.#pause = { key: `${this.settings.prefix}go-on:${this.name}`, id };
    this.#tell({ do: 'pause', pause: this.#pause });
  }

  /** What it waits for is said on the server, where its worker can look without ending its pause. */
  async goOn() {
    const { key, id } = this.#pause;
    await command('SET', key, id, 'PX', '60000');
  }

  /** Cuts its line to the server, or mends it. */
  cut(isCut) {
    this.isCut = isCut;
    const { history } = this.#stage;
    if (isCut) history.begin(this.name, 'cut', now());
    else history.end(this.name, 'cut', now());
    this.#stage.log(isCut ? `${this.name} is cut off from the server.` : `${this.name} is connected again.`, now());
    this.lineChanged();
    this.#changed();
  }

  /** Its own line, or the server, was cut off or came back. */
  lineChanged() {
    this.#tell({ do: 'cut', isCut: this.#isCutFromServer });
  }

  /** The visitor pressed a button in its frame. */
  pressed(does) {
    if (does === 'kill' && this.phase === 'dead') return void this.start(this.settings);
    if (does === 'pause' && this.isPaused) return void this.goOn();
    if (does === 'cut') return this.cut(!this.isCut);
    if (does === 'ask' && this.isRepeating) return;
    this[does]();
  }

  /** Its worker, or its frame, said something. */
  heard({ what, at, run, ...said }) {
    if (run !== undefined && run !== this.#run) return;
    this.#HEARS[what]?.call(this, said, at);
    if (what !== 'called') this.#changed();
  }

  show() {
    const { phase, until, since, reason, isPaused, isCut } = this;
    const token = tokenText(this.token);
    this.#post({ do: 'show', phase, until, since, reason, token, isPaused, isCut, isLocked: this.#stage.isPlaying });
  }

  #HEARS = {
    loaded() {
      this.#loaded();
    },
    ready() {
      this.phase = 'idle';
    },
    pressed({ does }) {
      this.pressed(does);
    },
    called({ isAnswered }, at) {
      this.calls += 1;
      this.#stage.history.moment(this.name, isAnswered ? 'call' : 'failure', at, '');
    },
    asks(_, at) {
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
    beats({ until }) {
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
      // From now on it does not rely on its lease, whatever the server answers.
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
        kind === 'gave up' ? `${this.name} gives up.` : `${this.name} did not get the lock: ${kind}.`,
        at,
      );
    },
    reads({ id }) {
      const { fenced, unfenced } = this.#stage.stores;
      this.#tell({ do: 'answer', id, answer: { fenced: fenced.balance, unfenced: unfenced.balance } });
    },
    writes({ id, token, adds, values }, at) {
      const answer = this.#stage.write(this.name, token, adds, values, at);
      this.written.push(answer);
      this.#tell({ do: 'answer', id, answer });
    },
    stands(_, at) {
      this.isPaused = true;
      this.#stage.history.begin(this.name, 'paused', at);
      this.#stage.log(`${this.name} stands still.`, at);
    },
    wakes(_, at) {
      this.isPaused = false;
      this.#pause = undefined;
      const paused = this.#stage.history.end(this.name, 'paused', at);
      this.#stage.log(`${this.name} goes on after ${seconds(at - paused.from)}.`, at);
    },
    listens({ id, channel }) {
      const hear = (text) => this.#tell({ do: 'heard', id, text });
      this.#listening.set(id, this.#stage.ears.listen(channel, hear));
    },
    unlistens({ id }) {
      this.#listening.get(id)?.();
      this.#listening.delete(id);
    },
    broke({ text }) {
      throw new Error(`${this.name}: ${text}`);
    },
  };

  get #isCutFromServer() {
    return this.isCut || this.#stage.isStopped;
  }

  /** Its worker is no more: nothing of it goes on. */
  #forget(at) {
    const { history } = this.#stage;
    for (const kind of ['waits', 'holds', 'paused', 'dead']) history.end(this.name, kind, at);
    for (const unlisten of this.#listening.values()) unlisten();
    this.#listening.clear();
    this.isPaused = false;
    this.#pause = undefined;
  }

  #changed() {
    this.show();
    this.#stage.changed();
  }

  #tell(message) {
    this.#post({ do: 'tell', message });
  }

  #post(message) {
    this.#frame.contentWindow.postMessage(message, location.origin);
  }
}

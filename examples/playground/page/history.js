// The history: spans of time and moments, each in a lane. The timeline draws it, and the tables show it as text.

import { now } from './names.js';

/** Older entries are removed. */
const KEEP_MS = 60_000;

export class History {
  /** The time from which all shown times count. */
  epoch = now();
  /** Spans `{ id, lane, kind, from, to, … }`; `to` is undefined while a span lasts. */
  spans = [];
  /** Moments `{ id, lane, kind, at, text }`. */
  moments = [];
  #nextId = 1;

  clear() {
    this.epoch = now();
    this.spans = [];
    this.moments = [];
  }

  /** Begins a span in a lane, and ends the current one of the same kind. */
  begin(lane, kind, at, details) {
    this.end(lane, kind, at);
    const span = { id: this.#nextId++, lane, kind, from: at, to: undefined, ...details };
    this.spans.push(span);
    return span;
  }

  end(lane, kind, at) {
    const span = this.current(lane, kind);
    if (span) span.to = Math.max(span.from, at);
    return span;
  }

  current(lane, kind) {
    return this.spans.findLast((span) => span.lane === lane && span.kind === kind && span.to === undefined);
  }

  moment(lane, kind, at, text) {
    this.moments.push({ id: this.#nextId++, lane, kind, at, text });
  }

  forget() {
    const since = now() - KEEP_MS;
    this.spans = this.spans.filter(({ to }) => to === undefined || to > since);
    this.moments = this.moments.filter(({ at }) => at > since);
  }

  /** Returns the clients that believe at a moment that they hold the lock. A belief ends at the lease's deadline. */
  believersAt(at) {
    return this.spans
      .filter(({ kind, from, to, until }) => kind === 'holds' && from <= at && at < Math.min(to ?? Infinity, until))
      .map(({ lane }) => lane);
  }
}

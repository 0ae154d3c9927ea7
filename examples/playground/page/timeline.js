// The timeline has a lane for each client and for each record of the server. Time moves to the left. Deadlines are to
// the right of "now". A span that lasts is an SVG element that grows; a span that has ended only moves.

import { NAMES, now, numberOf, SHAPES } from './names.js';
import { rowsOf } from './server.js';

const FUTURE_MS = 3_500;
/** Returns the shown part of the past, which is shorter on a narrow screen. */
const pastMs = (width) => (width < 600 ? 12_000 : 20_000);
const LANE = 42;
const BAR = { y: 17, height: 18 };
const AXIS = 22;
/** The approximate width of a character. A bar that is too narrow for its text shows none. */
const CHARACTER_PX = 8;
const FRAME_MS = 50;
const REDUCED_MOTION_FRAME_MS = 1_000;

const SVG = 'http://www.w3.org/2000/svg';

export class Timeline {
  #stage;
  #svg;
  #moving;
  #static;
  #elements = new Map();
  #width = 0;
  #lanes = [];
  #layout = '';
  #reducedMotion = matchMedia('(prefers-reduced-motion: reduce)');

  constructor(stage, svg) {
    this.#stage = stage;
    this.#svg = svg;
    this.#static = svg.appendChild(element('g'));
    this.#moving = svg.appendChild(element('g'));
    new ResizeObserver(([{ contentRect }]) => {
      this.#width = contentRect.width;
    }).observe(svg);
    let last = 0;
    const frame = (time) => {
      if (time - last >= (this.#reducedMotion.matches ? REDUCED_MOTION_FRAME_MS : FRAME_MS)) {
        last = time;
        this.#draw();
      }
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  }

  get #past() {
    return pastMs(this.#width);
  }

  get #scale() {
    return this.#width / (this.#past + FUTURE_MS);
  }

  #draw() {
    const { history, settings } = this.#stage;
    const layout = `${settings.kind} ${this.#width} ${history.epoch}`;
    if (layout !== this.#layout) this.#begin(layout);
    history.forget();
    const time = now();
    const at = (moment) => (moment - history.epoch) * this.#scale;
    const since = time - this.#past - 2_000;
    const drawnIds = new Set();
    for (const span of history.spans) {
      if ((span.to ?? time) < since) continue;
      drawnIds.add(span.id);
      this.#span(span, at, time);
    }
    for (const moment of history.moments) {
      if (moment.at < since) continue;
      drawnIds.add(moment.id);
      if (!this.#elements.has(moment.id)) this.#moment(moment, at);
    }
    for (const [id, { group }] of this.#elements) {
      if (drawnIds.has(id)) continue;
      group.remove();
      this.#elements.delete(id);
    }
    this.#moving.setAttribute('transform', `translate(${this.#past * this.#scale - at(time)} 0)`);
  }

  /** Draws the lanes, their names, and the axis. */
  #begin(layout) {
    this.#layout = layout;
    this.#elements.clear();
    this.#moving.replaceChildren();
    this.#static.replaceChildren();
    const rows = rowsOf(this.#stage.settings.kind);
    this.#lanes = [...NAMES, ...rows.map((_, i) => `server/${i}`)];
    const height = this.#lanes.length * LANE + AXIS;
    set(this.#svg, { height, viewBox: `0 0 ${Math.max(1, this.#width)} ${height}` });
    this.#lanes.forEach((lane, i) => {
      const row = rows[i - NAMES.length];
      const title = row === undefined ? `${SHAPES[lane]} ${lane}` : `the server’s record${row ? `: ${row}` : ''}`;
      const className = row === undefined ? `lane ${lane}` : 'lane server';
      this.#static.append(
        element('rect', { class: className, x: 0, y: i * LANE + 1, width: this.#width, height: LANE - 2, rx: 4 }),
        element('text', { class: `title ${lane}`, x: 6, y: i * LANE + 14 }, title),
      );
    });
    const bottom = this.#lanes.length * LANE;
    for (let s = this.#past / -1_000; s <= 0; s += this.#past / 4_000) {
      const x = (this.#past + s * 1_000) * this.#scale;
      this.#static.append(element('line', { class: s ? 'grid' : 'now', x1: x, x2: x, y1: 0, y2: bottom + 4 }));
      const anchor = x === 0 ? 'start' : 'middle';
      this.#static.append(
        element('text', { class: 'axis', x, y: bottom + 17, 'text-anchor': anchor }, s ? `${s} s` : 'now'),
      );
    }
  }

  #span(span, at, time) {
    const { id, lane, kind, from, to } = span;
    const top = this.#top(lane);
    if (top === undefined) return;
    const drawn = this.#elements.get(id) ?? this.#add(span, top, at);
    if (drawn.isDone) return;
    // A lease does not count beyond its deadline, even if its end was not reported yet.
    const until = kind === 'holds' || kind === 'record' ? span.until : Infinity;
    const end = to ?? Math.min(time, until);
    const width = Math.max(1, at(end) - at(from));
    set(drawn.bar, { width });
    drawn.text?.setAttribute('visibility', width >= drawn.textWidth ? 'visible' : 'hidden');
    if (drawn.ahead) {
      const left = to === undefined ? Math.max(0, at(until) - at(end)) : 0;
      set(drawn.ahead, { x: at(end), width: left });
    }
    drawn.isDone = to !== undefined;
  }

  #add({ id, lane, kind, from, token, who }, top, at) {
    const x = at(from);
    const group = this.#moving.appendChild(element('g', { class: `${kind} ${who ?? lane}` }));
    const place = { waits: [24, 4], cut: [36, 4], dead: [24, 4], paused: [14, 24], stopped: [2, LANE - 4] }[kind];
    const [y, height] = place ?? [BAR.y, BAR.height];
    const drawn = {
      group,
      bar: element('rect', { class: 'bar', x, y: top + y, height, width: 1, rx: kind === 'paused' ? 0 : 3 }),
    };
    if (kind === 'holds' || kind === 'record') {
      drawn.ahead = group.appendChild(element('rect', { class: 'ahead', y: top + y, height, width: 0, rx: 3 }));
    }
    group.append(drawn.bar);
    const text = { holds: token ? `t${numberOf(token)}` : '', record: `${SHAPES[who] ?? ''} ${who}`.trim() }[kind];
    if (text) {
      drawn.text = group.appendChild(element('text', { class: 'on', x: x + 5, y: top + y + 13 }, text));
      drawn.textWidth = CHARACTER_PX * text.length + 10;
    }
    this.#elements.set(id, drawn);
    return drawn;
  }

  #moment({ id, lane, kind, at: moment, text }, at) {
    const top = this.#top(lane);
    if (top === undefined) return;
    const x = at(moment);
    const group = this.#moving.appendChild(element('g', { class: kind }));
    if (kind === 'call' || kind === 'failure') {
      group.append(element('rect', { x: x - 0.75, y: top + 36, width: 1.5, height: 4 }));
    } else {
      group.append(
        element('line', { x1: x, x2: x, y1: top + 15, y2: top + 36 }),
        // The text of a loss is to the left, because the next moment often follows closely.
        element(
          'text',
          { x: kind === 'lost' ? x - 3 : x - 1, y: top + 13, 'text-anchor': kind === 'lost' ? 'end' : 'start' },
          text,
        ),
      );
    }
    this.#elements.set(id, { group });
  }

  /** Returns the top of a lane. Entries for the whole server, such as a stop, are shown in its first row. */
  #top(lane) {
    const i = this.#lanes.indexOf(lane === 'server' ? 'server/0' : lane);
    return i < 0 ? undefined : i * LANE;
  }
}

function element(name, attributes = {}, text) {
  const it = document.createElementNS(SVG, name);
  set(it, attributes);
  if (text !== undefined) it.textContent = text;
  return it;
}

function set(it, attributes) {
  for (const [name, value] of Object.entries(attributes)) it.setAttribute(name, value);
}

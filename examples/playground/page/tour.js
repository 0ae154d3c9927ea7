// The tour: six tabs, and the scene of the chosen tab with its controls.

import { SCENES } from './scenes.js';

const byId = (id) => document.getElementById(id);

export class Tour {
  /** The results of the scenes so far: `{ id, result }`. */
  played = [];
  #stage;
  #at = 0;
  #tabs;
  #controller;
  #announce;
  #pace;

  /** @param pace the factor for the pauses that give the reader time; 1 is as written in the scenes */
  constructor(stage, announce, pace) {
    this.#stage = stage;
    this.#announce = announce;
    this.#pace = pace;
    this.#tabs = SCENES.map(({ id, title }, i) => this.#tab(id, title, i));
    byId('tabs').replaceChildren(...this.#tabs);
    byId('tabs').addEventListener('keydown', (event) => this.#key(event));
    byId('play').addEventListener('click', () => (this.#controller ? this.stop() : this.play()));
    byId('next').addEventListener('click', () => {
      this.choose((this.#at + 1) % SCENES.length);
      byId('play').focus();
    });
    this.choose(0);
  }

  get isPlaying() {
    return this.#controller !== undefined;
  }

  choose(index) {
    this.stop();
    this.#at = index;
    const { title, text } = SCENES[index];
    this.#tabs.forEach((tab, i) => {
      tab.setAttribute('aria-selected', String(i === index));
      tab.tabIndex = i === index ? 0 : -1;
    });
    byId('scene').setAttribute('aria-labelledby', this.#tabs[index].id);
    byId('title').textContent = `${index + 1}. ${title}`;
    byId('text').textContent = text;
    this.#clear();
  }

  /** Plays the chosen scene to its end. */
  async play() {
    const scene = SCENES[this.#at];
    const controller = new AbortController();
    this.#controller = controller;
    const { signal } = controller;
    this.#clear();
    byId('play').textContent = 'Stop';
    const stage = this.#stage;
    stage.play(true);
    try {
      const reset = async (settings) => {
        await stage.reset(settings);
        signal.throwIfAborted();
      };
      await reset(scene.settings);
      const [ada, ben, cleo, dan] = stage.all;
      const result = await scene.play({
        ...{ ada, ben, cleo, dan, stage, reset },
        ...{ all: stage.all, history: stage.history, stores: stage.stores, server: stage.server },
        step: (text) => this.#step(text),
        until: (condition) => stage.until(condition, signal),
        rest: (ms) => rest(ms * this.#pace, signal),
        isHeldOnServerBy: (name) => stage.server.held.length === 1 && stage.server.held[0].who === name,
      });
      this.#showResult(scene, result);
    } catch (error) {
      if (!signal.aborted) throw error;
    } finally {
      if (this.#controller === controller) this.#end();
    }
  }

  stop() {
    if (!this.isPlaying) return;
    this.#controller.abort(new Error('stopped'));
    this.#end();
    void this.#stage.reset({});
  }

  #end() {
    this.#controller = undefined;
    byId('play').textContent = 'Play again';
    this.#stage.play(false);
  }

  #step(text) {
    const item = document.createElement('li');
    item.textContent = text;
    byId('steps').append(item);
    this.#announce(text);
  }

  #showResult({ id }, result) {
    this.played.push({ id, result });
    byId('result-text').textContent = result;
    byId('result').hidden = false;
    this.#announce(`What you just saw: ${result}`);
  }

  #clear() {
    byId('play').textContent = 'Play';
    byId('steps').replaceChildren();
    byId('result').hidden = true;
    byId('result-text').textContent = '';
  }

  #tab(id, title, i) {
    const tab = document.createElement('button');
    tab.type = 'button';
    tab.id = `tab-${id}`;
    tab.setAttribute('role', 'tab');
    tab.setAttribute('aria-controls', 'scene');
    tab.textContent = `${i + 1}. ${title}`;
    tab.addEventListener('click', () => this.choose(i));
    return tab;
  }

  #key(event) {
    const last = SCENES.length - 1;
    const to = {
      ArrowRight: this.#at === last ? 0 : this.#at + 1,
      ArrowLeft: this.#at === 0 ? last : this.#at - 1,
      Home: 0,
      End: last,
    }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    this.choose(to);
    this.#tabs[to].focus();
  }
}

function rest(ms, signal) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => {
      clearTimeout(timer);
      reject(signal.reason);
    });
  });
}

// Reads the server's records by ordinary commands over its REST API: see docs/architecture/records.md.

import { now } from './names.js';

const POLL_INTERVAL_MS = 80;

export async function command(...args) {
  const response = await fetch('/', { method: 'POST', body: JSON.stringify(args) });
  const { result, error } = await response.json();
  if (error) throw new Error(error);
  return result;
}

async function pipeline(commands) {
  const response = await fetch('/pipeline', { method: 'POST', body: JSON.stringify(commands) });
  return (await response.json()).map(({ result }) => result);
}

/** For each kind of lock: a row for each possible holder, the commands that read its records, and their meaning. */
const KINDS = {
  lock: {
    rows: [''],
    commands: (name) => [
      ['HGETALL', name],
      ['PTTL', name],
    ],
    read: ([fields, pttl]) => ({ held: hash(fields, pttl, '') }),
  },
  mutex: {
    rows: [''],
    commands: (name) => [
      ['GET', name],
      ['PTTL', name],
    ],
    read: ([owner, pttl]) => ({ held: owner === null ? [] : [{ row: '', owner, left: pttl }] }),
  },
  fair: {
    rows: [''],
    commands: (name) => [
      ['HGETALL', name],
      ['PTTL', name],
      ['ZRANGE', `steadlock:{${name}}:fair`, '0', '-1'],
    ],
    read: ([fields, pttl, queue]) => ({ held: hash(fields, pttl, ''), queue }),
  },
  readWrite: {
    rows: ['writes', 'reads', 'reads'],
    commands: (name) => [
      ['TIME'],
      ['HGETALL', `steadlock:{${name}}:rw`],
      ['ZRANGE', `steadlock:{${name}}:rw-readers`, '0', '-1', 'WITHSCORES'],
    ],
    read([time, state, readers]) {
      const { writer, writer_until: until } = Object.fromEntries(pairs(state));
      const writes = writer === undefined ? [] : [[writer, until]];
      return { held: [...alive(writes, time, 'writes'), ...alive(pairs(readers), time, 'reads')] };
    },
  },
  semaphore: {
    rows: ['permit', 'permit'],
    commands: (name) => [['TIME'], ['ZRANGE', `steadlock:{${name}}:semaphore`, '0', '-1', 'WITHSCORES']],
    read: ([time, permits]) => ({ held: alive(pairs(permits), time, 'permit') }),
  },
  multi: {
    rows: ['a', 'b'],
    commands: (name) => ['a', 'b'].flatMap((row) => KINDS.lock.commands(`${name}/${row}`)),
    read: ([a, aLeft, b, bLeft]) => ({ held: [...hash(a, aLeft, 'a'), ...hash(b, bLeft, 'b')] }),
  },
};

/** Returns the names of the rows for a kind of lock. */
export const rowsOf = (kind) => KINDS[kind].rows;

/** Returns the commands that read the records of a kind, as a text. */
export const commandsOf = (kind, name) =>
  KINDS[kind]
    .commands(name)
    .map((args) => args.join(' '))
    .join(' · ');

function pairs(flat) {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i], flat[2 * i + 1]]);
}

function hash(fields, pttl, row) {
  return pairs(fields).map(([owner]) => ({ row, owner, left: pttl }));
}

/** Returns the owners whose deadline, in milliseconds of the server's clock, is ahead. Skips the entry `limit`. */
function alive(deadlines, [seconds, micros], row) {
  const time = seconds * 1_000 + micros / 1_000;
  return deadlines
    .filter(([owner, until]) => owner !== 'limit' && until > time)
    .map(([owner, until]) => ({ row, owner: owner.replace(/\/\d+$/, ''), left: until - time }));
}

/** Reads the records of one lock repeatedly. */
export class Server {
  /** The holders in the lock's records: `{ row, who, left }`. */
  held = [];
  /** The waiters in a fair lock's queue. */
  queue = [];
  #names = new Map();
  #timer;

  /** @param changed is called after each reading, with its time */
  constructor(changed) {
    this.changed = changed;
  }

  watch(kind, prefix, lock) {
    this.stop();
    this.held = this.queue = [];
    const { commands, read } = KINDS[kind];
    const poll = async () => {
      try {
        const infosCommand = ['KEYS', `steadlock:{${prefix}*}:client`];
        const [keys, ...records] = await pipeline([infosCommand, ...commands(prefix + lock)]);
        const at = now();
        await this.#readNames(prefix, keys);
        const { held, queue = [] } = read(records);
        if (this.#timer !== timer) return;
        this.held = held
          .map((one) => ({ ...one, who: this.#nameOf(one.owner) }))
          .sort((a, b) => a.who.localeCompare(b.who));
        this.queue = queue.map((owner) => this.#nameOf(owner));
        this.changed(at);
      } catch {
        // The server does not answer, so the last reading stays.
      }
      if (this.#timer === timer) timer.id = setTimeout(poll, POLL_INTERVAL_MS);
    };
    const timer = { id: setTimeout(poll, 0) };
    this.#timer = timer;
  }

  stop() {
    clearTimeout(this.#timer?.id);
    this.#timer = undefined;
  }

  /** Reads the labels of new client ids from the client infos on the server. These expire, so the labels are kept. */
  async #readNames(prefix, keys) {
    const unread = keys.filter((key) => !this.#names.has(clientOf(prefix, key)));
    if (unread.length === 0) return;
    const infos = await pipeline(unread.map((key) => ['GET', key]));
    unread.forEach((key, i) => {
      const label = infos[i]?.match(/^label=(.*)$/m)?.[1];
      if (label) this.#names.set(clientOf(prefix, key), label);
    });
  }

  /** Returns the name of an owner. An owner id begins with the client id. */
  #nameOf(owner) {
    return this.#names.get(owner.split(':')[0]) ?? '?';
  }
}

const clientOf = (prefix, key) => key.slice(`steadlock:{${prefix}`.length, -'}:client'.length);

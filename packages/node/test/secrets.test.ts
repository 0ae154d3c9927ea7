// Tests that no message, representation, cause or stack repeats a secret that was passed in a wrong place. The secrets
// are in `ci/secrets/shapes.json`.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { inspect } from 'node:util';
import { type Client, connect, redlock } from 'steadlock';

interface Shapes {
  readonly secrets: { raw: string; encoded: string; marks: string[] }[];
  readonly urls: { url: string; unless?: string }[];
  readonly names: { name: string; unless?: string }[];
  readonly keys: { text: string }[];
  readonly places: { place: string; given: 'urls' | 'names' | 'keys'; 'not in'?: Record<string, string> }[];
}

const file = join(__dirname, '..', '..', '..', '..', 'ci', 'secrets', 'shapes.json');
const shapes: Shapes = JSON.parse(readFileSync(file, 'utf8'));

/** Returns everything that a program could print of a value. */
function everything(value: unknown, seen = new Set<unknown>()): string {
  if (value === undefined || value === null || seen.has(value)) return '';
  seen.add(value);
  let text = `${inspect(value, { depth: 6, showHidden: true })} ${inspect(value)} ${String(value)}`;
  try {
    text += JSON.stringify(value);
  } catch {
    // JSON cannot represent this value.
  }
  if (value instanceof Error) {
    const { lockName } = value as { lockName?: string };
    text += `${value.message} ${value.stack} ${lockName} ${everything(value.cause, seen)}`;
    for (const one of [(value as AggregateError).errors ?? []].flat()) text += everything(one, seen);
  }
  return text;
}

type Listen = (call: () => unknown) => Promise<unknown>;
type Place = (listen: Listen, given: unknown) => Promise<void>;

async function using(listen: Listen, call: (client: Client) => unknown): Promise<void> {
  const client = await connect('memory://');
  await listen(() => client);
  await listen(() => call(client));
  await client.close();
}

async function open(listen: Listen, url: unknown, options: object = {}): Promise<void> {
  const client = (await listen(() => connect(url as string, { connectTimeoutMs: 1_000, ...options }))) as Client;
  await client?.close();
}

async function openRedlock(listen: Listen, urls: unknown): Promise<void> {
  const client = (await listen(() => redlock(urls as string[], { connectTimeoutMs: 1_000 }))) as Client;
  await client?.close();
}

/** Acquires a lock, and makes the calls that can fail. */
async function use(listen: Listen, given: unknown, make: (client: Client) => unknown): Promise<void> {
  const client = await connect('memory://');
  // biome-ignore lint/suspicious/noExplicitAny: locks of every kind
  const made = (await listen(() => make(client))) as any;
  if (made !== undefined) {
    const other = await connect('memory://');
    for (const lock of made.read === undefined ? [made] : [made.read, made.write]) {
      const acquire = lock.lock ? (o?: object) => lock.lock(o) : (o?: object) => lock.acquire(1, o);
      await listen(() => (lock.unlock ?? lock.release).call(lock, given));
      await listen(() => acquire({ leaseMs: 0 }));
      // biome-ignore lint/suspicious/noExplicitAny: leases of every kind
      const lease = (await listen(() => acquire({ waitMs: 0 }))) as any;
      await listen(() => lease.signal);
      await listen(() => acquire({ waitMs: 1 }));
      await listen(() => lock.isLocked?.());
      await listen(() => other.forceRelease(lock));
      await listen(() => other.lock('other').unlock(lease));
      await listen(() => client.lock('other').unlock(lease));
      await listen(() => acquire({ within: {} }));
      await listen(() => lease.release());
      await listen(() => lease.extend());
      await listen(() => lease);
      await listen(() => lock);
    }
    await other.close();
  }
  await client.close();
  if (made?.lock) await listen(() => made.lock());
}

const places: Record<string, Place> = {
  connect: (listen, given) => open(listen, given),
  'connect by STEADLOCK_URL': async (listen, given) => {
    const before = process.env.STEADLOCK_URL;
    process.env.STEADLOCK_URL = typeof given === 'string' ? given : '';
    await open(listen, undefined);
    if (before === undefined) delete process.env.STEADLOCK_URL;
    else process.env.STEADLOCK_URL = before;
  },
  'connect to a list': (listen, given) => open(listen, [given]),
  'redlock, one of the primaries': (listen, given) => openRedlock(listen, ['memory://a', given, 'memory://b']),
  'redlock of one text': openRedlock,
  'lease of a client': (listen, given) => open(listen, 'memory://', { leaseMs: given }),
  'timeout of a client': (listen, given) => open(listen, 'memory://', { commandTimeoutMs: given }),
  'retry interval': async (listen, given) => {
    await open(listen, 'memory://', { retryIntervalMs: given });
    await open(listen, 'memory://', { retryIntervalMs: [1, given] });
  },
  prefix: (listen, given) => open(listen, 'memory://', { keyPrefix: given }),
  'a file of authorities': (listen, given) => open(listen, 'rediss://127.0.0.1:1', { tlsCaFile: given }),
  'a file of a certificate': (listen, given) =>
    open(listen, 'rediss://127.0.0.1:1', { tlsCertFile: given, tlsKeyFile: file }),
  'a file of a key': (listen, given) => open(listen, 'rediss://127.0.0.1:1', { tlsCertFile: file, tlsKeyFile: given }),
  "a URL in a file's place": (listen, given) => open(listen, 'rediss://127.0.0.1:1', { tlsCaFile: given }),
  "a server's name": (listen, given) => open(listen, 'rediss://127.0.0.1:1', { tlsServerName: given }),
  'an address map': async (listen, given) => {
    for (const addressMap of [{ [given as string]: 'h:1' }, { 'h:1': given }, given]) {
      await open(listen, 'redis+cluster://127.0.0.1:1', { addressMap });
    }
  },
  'name of a lock': (listen, given) => use(listen, given, (client) => client.lock(given as string)),
  'name of a mutex': (listen, given) => use(listen, given, (client) => client.mutex(given as string, { waitMs: 0 })),
  'name of a fair lock': (listen, given) => use(listen, given, (client) => client.fairLock(given as string)),
  'name of a read-write lock': (listen, given) => use(listen, given, (client) => client.readWriteLock(given as string)),
  'name of a semaphore': (listen, given) => use(listen, given, (client) => client.semaphore(given as string, 1)),
  'name of several locks': (listen, given) =>
    use(listen, given, (client) => client.multiLock([client.lock(given as string), client.lock('other')])),
  "name of a function's lock": (listen, given) =>
    using(listen, (client) =>
      client.using(given as string, { waitMs: 0 }, (lease) => client.using(lease.name, { waitMs: 1 }, () => lease)),
    ),
  wait: (listen, given) => using(listen, (client) => client.lock('name', { waitMs: given as number }).lock()),
  'limit of a semaphore': (listen, given) =>
    using(listen, (client) => client.semaphore('n', given as number).acquire()),
  permits: (listen, given) => using(listen, (client) => client.semaphore('n', 1).acquire(given as number)),
  'a lock among several': (listen, given) => using(listen, (client) => client.multiLock([given as never])),
  'a lock to take away': (listen, given) => using(listen, (client) => client.forceRelease(given as never)),
  'an argument that is not known': (listen, given) => open(listen, 'memory://', { password: given }),
};

const wrappers: ((text: string) => unknown)[] = [
  (text) => text,
  (text) => `${text}\ud800`,
  (text) => Buffer.from(text),
  (text) => [text],
  (text) => ({ [text]: text }),
  (text) => new Map([[text, text]]),
  (text) => ({ toString: () => text, [Symbol.toPrimitive]: () => text }),
  (text) => new URL(`redis://${encodeURIComponent(text)}@127.0.0.1:1`),
  (text) => Symbol(text),
];

/** Generates the texts for one argument, each with the parts that must not appear. */
function* given(kind: 'urls' | 'names' | 'keys'): Generator<[text: string, marks: string[]]> {
  if (kind === 'keys') {
    for (const { text } of shapes.keys) yield [text, ['hunter2']];
    return;
  }
  for (const shape of shapes[kind]) {
    const template = 'url' in shape ? shape.url : shape.name;
    for (const { raw, encoded, marks } of shapes.secrets) {
      if (shape.unless !== undefined && raw.includes(shape.unless)) continue;
      yield [template.replaceAll('{raw}', () => raw).replaceAll('{encoded}', () => encoded), marks];
    }
  }
}

describe('secrets', () => {
  it('are tested in each place of the table', () => {
    const wanted = shapes.places.filter((place) => place['not in']?.node === undefined);
    assert.deepEqual(
      Object.keys(places),
      wanted.map(({ place }) => place),
    );
  });

  for (const { place, given: kind } of shapes.places) {
    const attempt = places[place];
    if (attempt === undefined) continue;
    it(`are not repeated: ${place}`, async () => {
      const isParsedAsUrl = place.startsWith('connect') || place.startsWith('redlock, ');
      let number = 0;
      for (const [text, marks] of given(kind)) {
        // For an argument that is not parsed as a URL, every 29th text is enough, in every type.
        const isTurn = number++ % 29 === 0;
        if (kind === 'urls' && !isParsedAsUrl && !isTurn) continue;
        for (const wrap of isTurn ? wrappers : wrappers.slice(0, 1)) {
          let shown = '';
          await attempt(async (call) => {
            try {
              const result = await call();
              shown += everything(result);
              return result;
            } catch (error) {
              shown += everything(error);
              return undefined;
            }
          }, wrap(text));
          const leaked = marks.some((mark) => shown.includes(mark));
          assert.ok(!leaked, `${inspect(wrap(text))}: ${shown}`);
        }
      }
    });
  }
});

// Reads the replies and writes the commands that all readers and writers of RESP share: see `ci/resp/README.md`.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';

type Value = Readonly<Record<string, unknown>>;

interface Row {
  readonly name: string;
  readonly value: Value;
  readonly bytes?: string;
  readonly resp2?: string;
  readonly resp3?: string;
  readonly words: readonly string[];
  /** The value that this package reads instead of `value`. */
  readonly web?: { readonly value: Value };
}

type Vectors = Readonly<Record<'replies' | 'incomplete' | 'refused' | 'commands', readonly Row[]>>;

// The module needs no WebAssembly, and the package does not export it.
const root = fileURLToPath(new URL('../../../..', import.meta.url));
const { Decoder, encode } = (await import(
  `${root}packages/web/dist/adapters/resp.js`
)) as typeof import('../src/adapters/resp.js');
const vectors = JSON.parse(readFileSync(`${root}ci/resp/vectors.json`, 'utf8')) as Vectors;

/** Returns the bytes of a text of the vectors, which has one character for each byte. */
const bytes = (text: string) => Uint8Array.from(text, (byte) => byte.charCodeAt(0));
const utf8 = new TextDecoder('utf-8', { ignoreBOM: true });
const words = (row: Row) => row.words.map((word) => utf8.decode(bytes(word)));

/** Reads all replies of bytes that arrive in pieces. */
function read(sent: Uint8Array, size = sent.length || 1): unknown[] {
  const decoder = new Decoder();
  const replies: unknown[] = [];
  for (let at = 0; at < sent.length; at += size) {
    decoder.push(sent.subarray(at, at + size));
    for (let next = decoder.next(); next !== undefined; next = decoder.next()) {
      const { value } = next;
      replies.push(value instanceof Error ? { error: value.message } : value);
    }
  }
  return replies;
}

/** Returns the nearest value that this package has. */
function nearest(value: Value): unknown {
  const [[type, content] = []] = Object.entries(value);
  switch (type) {
    case 'nil':
      return null;
    case 'int':
      return BigInt(content as string);
    case 'boolean':
      return content ? 1n : 0n;
    case 'error':
      return { error: content };
    case 'array':
    case 'set':
    case 'push':
      return (content as Value[]).map(nearest);
    case 'map':
      return (content as Value[][]).flat().map(nearest);
    default:
      return utf8.decode(bytes(content as string));
  }
}

describe('RESP', () => {
  it('is decoded from pieces of any size', () => {
    let count = 0;
    for (const row of vectors.replies) {
      const text = row.bytes ?? row.resp2;
      if (text === undefined) continue;
      const [sent, expected] = [bytes(text), nearest(row.web?.value ?? row.value)];
      for (let end = 0; end < sent.length; end += 1) assert.deepEqual(read(sent.subarray(0, end)), [], row.name);
      for (let size = 1; size <= sent.length; size += 1) {
        assert.deepEqual(read(bytes(text + text), size), [expected, expected], row.name);
      }
      count += 1;
    }
    assert.ok(count > 30, `${count}`);
  });

  it('is incomplete while the rest can still come', () => {
    for (const row of vectors.incomplete) assert.deepEqual(read(bytes(row.bytes as string)), [], row.name);
  });

  it('is refused as RESP3', () => {
    const refused = vectors.replies.filter((row) => row.resp3 !== undefined);
    assert.ok(refused.length > 10, `${refused.length}`);
    for (const row of refused) assert.throws(() => read(bytes(row.resp3 as string)), /does not speak RESP2/, row.name);
  });

  it('is refused if it is malformed', () => {
    for (const row of vectors.refused) {
      const sent = bytes(row.bytes as string);
      for (let size = 1; size <= sent.length; size += 1) {
        assert.throws(() => read(sent, size), /does not speak RESP2/, row.name);
      }
    }
  });

  it('is encoded with lengths in bytes', () => {
    const text = new TextDecoder('utf-8', { fatal: true });
    let count = 0;
    for (const row of vectors.commands) {
      // Skips a command that is not text, because this package writes only text.
      try {
        for (const word of row.words) text.decode(bytes(word));
      } catch {
        continue;
      }
      assert.deepEqual(encode(words(row)), bytes(row.bytes as string), row.name);
      count += 1;
    }
    assert.equal(count, vectors.commands.length - 1);
  });
});

// Redis' protocol (RESP2) over any pair of streams, as far as scripts and channels need it.

import { type Reply, ReplyError } from '../redis-client.js';
import { keepAlive } from '../runtime.js';

/** A connection that the host has opened. */
export interface Socket {
  readonly readable: ReadableStream<Uint8Array>;
  readonly writable: WritableStream<Uint8Array>;
  close(): unknown;
}

interface Waiting {
  resolve(reply: Reply): void;
  reject(error: unknown): void;
}

/**
 * A connection to the server. Commands are sent at once, and answered in their order. A command without a reply in time
 * ends the connection: the following commands would wait as long, and a new connection may work.
 */
export class Connection {
  readonly #socket: Socket;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #waiting: Waiting[] = [];
  readonly #onMessage: (channel: string, message: string) => void;
  /** The error that ended the connection. */
  #end: unknown;
  /** Resolves when the connection has ended. */
  readonly ended: Promise<void>;

  constructor(socket: Socket, onMessage: (channel: string, message: string) => void = () => {}) {
    this.#socket = socket;
    this.#onMessage = onMessage;
    this.#writer = socket.writable.getWriter();
    this.ended = this.#read();
  }

  /** Sends a command. Rejects with a `ReplyError`, or with the error that ended the connection. */
  run(withinMs: number, ...command: string[]): Promise<Reply> {
    if (this.#end !== undefined) return Promise.reject(this.#end);
    return new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.close(new Error(`no answer within ${withinMs} ms`)), withinMs);
      keepAlive(timer, false);
      this.#waiting.push({
        resolve(reply) {
          clearTimeout(timer);
          resolve(reply);
        },
        reject(error) {
          clearTimeout(timer);
          reject(error);
        },
      });
      this.#writer.write(encode(command)).catch((error: unknown) => this.close(error));
    });
  }

  /** Ends the connection. Waiting callers get the error. */
  close(error: unknown = new Error('the connection was closed')): void {
    if (this.#end !== undefined) return;
    this.#end = error;
    for (const { reject } of this.#waiting.splice(0)) reject(error);
    // The socket can be closed already.
    Promise.resolve()
      .then(() => this.#socket.close())
      .catch(() => {});
  }

  async #read(): Promise<void> {
    const decoder = new Decoder();
    const reader = this.#socket.readable.getReader();
    try {
      for (;;) {
        const { value, done } = await reader.read();
        if (done) return this.close(new Error('the server closed the connection'));
        decoder.push(value);
        for (let reply = decoder.next(); reply !== undefined; reply = decoder.next()) this.#handleReply(reply.value);
      }
    } catch (error) {
      this.close(error);
    }
  }

  #handleReply(reply: Reply | ReplyError): void {
    if (Array.isArray(reply) && reply[0] === 'message') {
      this.#onMessage(`${reply[1]}`, `${reply[2]}`);
      return;
    }
    const waiting = this.#waiting.shift();
    if (reply instanceof ReplyError) waiting?.reject(reply);
    else waiting?.resolve(reply);
  }
}

/** Encodes a command. */
export function encode(command: readonly string[]): Uint8Array {
  const parts = command.map((word) => {
    const bytes = utf8.encode(word);
    return [utf8.encode(`$${bytes.length}\r\n`), bytes, LINE_END];
  });
  const all = [utf8.encode(`*${command.length}\r\n`), ...parts.flat()];
  const bytes = new Uint8Array(all.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of all) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/**
 * Decodes replies from bytes, which arrive in pieces of any size. `next` throws at bytes that no server sends in RESP2,
 * and at a reply above the limits; the bytes after them cannot be read either.
 */
export class Decoder {
  #bytes = new Uint8Array();
  /** How far the next reply has been read, and how many values its arrays have announced. */
  #at = 0;
  #values = 0;

  push(bytes: Uint8Array): void {
    const all = new Uint8Array(this.#bytes.length + bytes.length);
    all.set(this.#bytes);
    all.set(bytes, this.#bytes.length);
    this.#bytes = all;
  }

  /** Returns the next complete reply. */
  next(): { readonly value: Reply | ReplyError } | undefined {
    this.#at = this.#values = 0;
    const value = this.#reply(MAX_DEPTH);
    if (value === undefined) {
      if (this.#bytes.length >= MAX_BYTES) throw unreadable();
      return undefined;
    }
    this.#bytes = this.#bytes.subarray(this.#at);
    return { value };
  }

  #reply(depth: number): Reply | ReplyError {
    if (depth === 0) throw unreadable();
    const type = this.#bytes[this.#at];
    if (type === undefined) return undefined;
    const kind = String.fromCharCode(type);
    if (!'+-:$*'.includes(kind)) throw unreadable();
    const line = this.#line();
    if (line === undefined) return undefined;
    switch (kind) {
      case '+':
        return line;
      case '-':
        return new ReplyError(line);
      case ':':
        return integer(line);
      case '$':
        return this.#bulk(length(line, MAX_BYTES));
      default:
        return this.#array(length(line, MAX_VALUES), depth - 1);
    }
  }

  /** Reads the rest of a line after its first byte. */
  #line(): string | undefined {
    const end = this.#bytes.indexOf(RETURN, this.#at);
    return end < 0 ? undefined : this.#text(this.#at + 1, end);
  }

  /** Reads text between two places, and the end of the line after it. */
  #text(from: number, end: number): string | undefined {
    if (end + 1 >= this.#bytes.length) return undefined;
    if (this.#bytes[end] !== RETURN || this.#bytes[end + 1] !== LINE_FEED) throw unreadable();
    this.#at = end + 2;
    return text.decode(this.#bytes.subarray(from, end));
  }

  #bulk(length: number): Reply {
    return length < 0 ? null : this.#text(this.#at, this.#at + length);
  }

  #array(count: number, depth: number): Reply {
    if (count < 0) return null;
    this.#values += count;
    if (this.#values > MAX_VALUES) throw unreadable();
    const items: Reply[] = [];
    while (items.length < count) {
      const item = this.#reply(depth);
      if (item === undefined) return undefined;
      // Scripts of Steadlock never return an error inside a list.
      items.push(item instanceof ReplyError ? item.message : item);
    }
    return items;
  }
}

/** Parses a number of 64 bits; `BigInt` alone would also accept an empty text, blanks, and other bases. */
function integer(line: string): bigint {
  const number = /^[-+]?\d+$/.test(line) ? BigInt(line) : undefined;
  if (number === undefined || BigInt.asIntN(64, number) !== number) throw unreadable();
  return number;
}

/** Parses a length or a count; -1 stands for no value. */
function length(line: string, most: number): number {
  const number = Number(integer(line));
  if (number < -1 || number > most) throw unreadable();
  return number;
}

function unreadable(): Error {
  return new Error('the server does not speak RESP2');
}

// The limits of a reply, as in `core/resp`. They protect the memory: any publisher chooses the length of its messages.
const MAX_BYTES = 2 ** 24;
const MAX_VALUES = 2 ** 20;
const MAX_DEPTH = 8;
const RETURN = 13;
const LINE_FEED = 10;
const LINE_END = new Uint8Array([RETURN, LINE_FEED]);
const utf8 = new TextEncoder();
const text = new TextDecoder('utf-8', { ignoreBOM: true });

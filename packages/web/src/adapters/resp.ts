// Redis' protocol (RESP2) over any pair of streams, as far as scripts and channels need it.

import { type Reply, ReplyError } from '../redis-client.js';
import { keepAlive } from '../runtime.js';

/** A connection of a host. */
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
        for (let reply = decoder.next(); reply !== undefined; reply = decoder.next()) this.#take(reply.value);
      }
    } catch (error) {
      this.close(error);
    }
  }

  #take(reply: Reply | ReplyError): void {
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

/** Decodes replies from bytes, which arrive in pieces of any size. */
export class Decoder {
  #bytes = new Uint8Array();

  push(bytes: Uint8Array): void {
    const all = new Uint8Array(this.#bytes.length + bytes.length);
    all.set(this.#bytes);
    all.set(bytes, this.#bytes.length);
    this.#bytes = all;
  }

  /** Returns the next complete reply. */
  next(): { readonly value: Reply | ReplyError } | undefined {
    const read = this.#reply(0);
    if (read === undefined) return undefined;
    this.#bytes = this.#bytes.subarray(read.end);
    return read;
  }

  #reply(from: number): { value: Reply | ReplyError; end: number } | undefined {
    const lineEnd = this.#bytes.indexOf(RETURN, from);
    if (lineEnd < 0 || lineEnd + 1 >= this.#bytes.length) return undefined;
    const line = text.decode(this.#bytes.subarray(from + 1, lineEnd));
    const end = lineEnd + 2;
    switch (String.fromCharCode(this.#bytes[from] as number)) {
      case '+':
        return { value: line, end };
      case '-':
        return { value: new ReplyError(line), end };
      case ':':
        return { value: BigInt(line), end };
      case '$':
        return this.#bulk(Number(line), end);
      case '*':
        return this.#array(Number(line), end);
      default:
        throw new Error('the server does not speak RESP2');
    }
  }

  #bulk(length: number, from: number): { value: Reply; end: number } | undefined {
    if (length < 0) return { value: null, end: from };
    const end = from + length + 2;
    return end > this.#bytes.length ? undefined : { value: text.decode(this.#bytes.subarray(from, end - 2)), end };
  }

  #array(length: number, from: number): { value: Reply; end: number } | undefined {
    if (length < 0) return { value: null, end: from };
    const items: Reply[] = [];
    let end = from;
    while (items.length < length) {
      const item = this.#reply(end);
      if (item === undefined) return undefined;
      // Scripts of Steadlock never return an error inside a list.
      items.push(item.value instanceof ReplyError ? item.value.message : item.value);
      end = item.end;
    }
    return { value: items, end };
  }
}

const RETURN = 13;
const LINE_END = new Uint8Array([13, 10]);
const utf8 = new TextEncoder();
const text = new TextDecoder();

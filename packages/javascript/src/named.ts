import { Engine } from './engine.js';
import { InvalidArgumentError } from './errors.js';
import { SHOWN_NAME } from './internals.js';
import { native } from './native.js';

/** The method by which `console.log` of Node, Bun and Deno gets the text of an object. Browsers do not use it. */
const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/**
 * The base class of objects with a lock's name. `console.log` and JSON show the name as error messages do: without the
 * userinfo of a URL, because a program can pass a URL as a name by mistake.
 */
export class Named {
  readonly #name: string;

  /** @internal */
  constructor(name: string, engine: Engine) {
    if (!(engine instanceof Engine)) throw notConstructible(new.target.name);
    this.#name = name;
  }

  /** The lock's name; for a lock of `multiLock`, the names of all members. */
  get name(): string {
    return this.#name;
  }

  /** @internal The name, for a message. */
  get [SHOWN_NAME](): string {
    return JSON.stringify(native.shown(this.#name));
  }

  /** @internal */
  toJSON(): object {
    return Object.assign({ name: native.shown(this.#name) }, this);
  }

  /** @internal */
  [INSPECT](_depth: number, options: object, inspect: (value: unknown, options: object) => string): string {
    return `${this.constructor.name} ${inspect(this.toJSON(), options)}`;
  }
}

/**
 * @internal Returns the error for a program that calls a constructor. The classes are public only for `instanceof` and
 * for dependency injection.
 */
export function notConstructible(what: string): InvalidArgumentError {
  return new InvalidArgumentError(
    `${what} cannot be made by new; connect() returns a client, which makes locks and their leases`,
    { operation: 'connect' },
  );
}

import { Engine } from './engine.js';
import { InvalidArgumentError } from './errors.js';
import { SHOWN_NAME } from './internals.js';
import { native } from './native.js';

/** How `console.log` of Node asks an object to show itself; others do not ask. */
const INSPECT: unique symbol = Symbol.for('nodejs.util.inspect.custom') as never;

/**
 * What has a lock's name. It is shown as error messages show it: without the userinfo of a URL, which may have been
 * passed in a name's place.
 */
export class Named {
  readonly #name: string;

  /** @internal */
  constructor(name: string, engine: Engine) {
    if (!(engine instanceof Engine)) throw notMadeByHand(new.target.name);
    this.#name = name;
  }

  /** The lock's name; of several locks as one, all names. */
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

/** @internal A program called a constructor. The classes are there for `instanceof`, and to inject by. */
export function notMadeByHand(what: string): InvalidArgumentError {
  return new InvalidArgumentError(
    `${what} is not made by new; connect() gives a client, which gives locks and their leases`,
    { operation: 'connect' },
  );
}

// The words and numbers of the core. They are known when its library is loaded.

import { native, type Vocabulary } from './native.js';

let known: Vocabulary | undefined;

/** @internal The request number of connecting. */
export const CONNECT = 0;

/** @internal Returns all words. */
export function words(): Vocabulary {
  known ??= native.vocabulary();
  return known;
}

/** @internal Returns the codes of the rows that the inbox handles specially. */
export function codes() {
  const code = (name: string) => words().codes.indexOf(name);
  return {
    granted: code('granted'),
    refused: code('refused'),
    state: code('state'),
    failed: code('failed'),
    lost: code('lost'),
    observed: code('observed'),
  };
}

// The words and numbers of the core, which are known once its library is there.

import { native, type Vocabulary } from './native.js';

let known: Vocabulary | undefined;

/** @internal The request number of connecting. */
export const CONNECT = 0;

/** @internal All of them. */
export function words(): Vocabulary {
  known ??= native.vocabulary();
  return known;
}

/** @internal The numbers of the rows that are told apart. */
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

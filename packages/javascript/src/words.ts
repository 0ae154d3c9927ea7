// The words and numbers of the core, which are known once its library is there.

import { native, type Vocabulary } from './native.js';

let known: Vocabulary | undefined;

/** @internal All of them. */
export function words(): Vocabulary {
  known ??= native.vocabulary();
  return known;
}

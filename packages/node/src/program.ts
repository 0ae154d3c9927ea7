// Which program this is, for those who ask who holds a lock. Never its arguments, which may be secrets.

import { basename, isAbsolute } from 'node:path';

/** @internal The file name of the script that Node runs; `node` if it runs none, as with `--eval`. */
export function programName(script: unknown = process.argv[1], flags: readonly string[] = process.execArgv): string {
  // Without a script, the first argument stands in its place, as it was typed.
  const isScript = typeof script === 'string' && isAbsolute(script) && !flags.some((flag) => GIVES_CODE.test(flag));
  return (isScript && basename(script)) || 'node';
}

/** @internal The language and its version. */
export const LANGUAGE = languageOf(process.versions);

/** @internal Deno and Bun say which Node they are like, too. */
export function languageOf({ deno, bun, node }: NodeJS.Dict<string>): string {
  if (deno) return `deno ${deno}`;
  return bun ? `bun ${bun}` : `node ${node}`;
}

/** @internal Warns the user of the program. */
export function warn(message: string, code: string): void {
  process.emitWarning(message, { type: 'SteadlockWarning', code });
}

const GIVES_CODE = /^(-e|-p|-pe|--eval|--print)(=|$)/;

// The identity of this program, for the information about holders. It never contains the arguments, which can be
// secrets.

import { basename, isAbsolute } from 'node:path';

/** @internal Returns the file name of the script that Node runs; `node` if there is none, as with `--eval`. */
export function programName(script: unknown = process.argv[1], flags: readonly string[] = process.execArgv): string {
  // Without a script, `process.argv[1]` is the first argument as it was typed. A script has an absolute path.
  const isScript = typeof script === 'string' && isAbsolute(script) && !flags.some((flag) => GIVES_CODE.test(flag));
  return (isScript && basename(script)) || 'node';
}

/** @internal The language and its version. */
export const LANGUAGE = languageOf(process.versions);

/**
 * @internal Returns the language and its version. Deno and Bun also set the version of Node that they imitate, so they
 * are checked first.
 */
export function languageOf({ deno, bun, node }: NodeJS.Dict<string>): string {
  if (deno) return `deno ${deno}`;
  return bun ? `bun ${bun}` : `node ${node}`;
}

/** @internal Warns the user of the program. */
export function warn(message: string, code: string): void {
  process.emitWarning(message, { type: 'SteadlockWarning', code });
}

const GIVES_CODE = /^(-e|-p|-pe|--eval|--print)(=|$)/;

// The identity of this program, for the information about holders.

import { globals, IS_WORKERS } from './runtime.js';

/** @internal Returns the program's name, if the host knows it; otherwise `web`. */
export function programName(): string {
  const script = globals.process?.argv?.[1];
  return (typeof script === 'string' && script.split(/[\\/]/).at(-1)) || 'web';
}

/** @internal The language and its version. */
export const LANGUAGE = language();

function language(): string {
  const { Deno, Bun, process } = globals;
  if (Deno) return `deno ${Deno.version.deno}`;
  if (Bun) return `bun ${Bun.version}`;
  if (IS_WORKERS) return 'workers';
  if (process?.versions?.node) return `node ${process.versions.node}`;
  return 'browser';
}

/** @internal Warns the user of the program. */
export function warn(message: string, code: string): void {
  if (globals.process?.emitWarning) globals.process.emitWarning(message, { type: 'SteadlockWarning', code });
  else console.warn(`${code}: ${message}`);
}

// Which host this is, for those who ask who holds a lock.

import { globals, IS_WORKERS } from './runtime.js';

/** @internal The program's name, where the host knows one. */
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

// Loads the native library that belongs to this machine.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

import type { NativeReached } from '../native/binding';

type Binding = typeof import('../native/binding');

export type {
  ClientOptions,
  NativeClient,
  NativeClientInfo,
  NativeFailure,
  NativeHolder,
  NativeMetric,
  NativeObservation,
  NativeReached,
  Vocabulary,
} from '../native/binding';

/** What opening a client needs beside its options: the function of `addressMap`, if it is one. */
export type Opening = ((announced: string) => NativeReached) | undefined;

/** `linux-x64-gnu` and the like, as the build names its file. */
function target(): string {
  const { platform, arch } = process;
  if (platform === 'linux') return `linux-${arch}-${cLibrary()}`;
  return platform === 'win32' ? `win32-${arch}-msvc` : `${platform}-${arch}`;
}

/**
 * The C library that this process runs on. A diagnostic report would say so too,
 * but it looks up the name of the peer of every open socket, and blocks meanwhile.
 */
function cLibrary(): 'gnu' | 'musl' {
  try {
    return cLibraryIn(readFileSync('/proc/self/maps', 'utf8'));
  } catch {
    return 'gnu';
  }
}

/** @internal The C library among what is mapped into a process: musl is its own loader. */
export function cLibraryIn(maps: string): 'gnu' | 'musl' {
  return /\/ld-musl-[^/]*$/m.test(maps) ? 'musl' : 'gnu';
}

/** Those that npm has a package for. */
const TARGETS = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'linux-x64-gnu',
  'linux-x64-musl',
  'win32-x64-msvc',
];

/** Gives the native library for a machine, or `undefined` if it is not there. */
type Place = (name: string) => unknown;

/** What was built in this folder; a bundle that is a module has none. */
const built: Place = (name) => {
  if (typeof __filename === 'undefined') return undefined;
  try {
    return createRequire(__filename)(`../native/steadlock.${name}.node`);
  } catch (error) {
    return unlessBroken(error);
  }
};

/**
 * The package that npm installs beside this one on such a machine. Each is written out: tools that copy what a program
 * needs find it by these words, and bundlers pass over those that are not there, as they stand within `try`.
 */
const installed: Place = (name) => {
  try {
    switch (name) {
      case 'darwin-arm64':
        return require('steadlock-darwin-arm64');
      case 'darwin-x64':
        return require('steadlock-darwin-x64');
      case 'linux-arm64-gnu':
        return require('steadlock-linux-arm64-gnu');
      case 'linux-arm64-musl':
        return require('steadlock-linux-arm64-musl');
      case 'linux-x64-gnu':
        return require('steadlock-linux-x64-gnu');
      case 'linux-x64-musl':
        return require('steadlock-linux-x64-musl');
      case 'win32-x64-msvc':
        return require('steadlock-win32-x64-msvc');
    }
  } catch (error) {
    return unlessBroken(error);
  }
  return undefined;
};

/** Of what is not there; throws the error of what is there. */
function unlessBroken(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
}

/** @internal The native library for `name`, from the first of these places that has it. */
export function load(name: string, ...places: Place[]): Binding {
  for (const place of places) {
    const found = tried(name, place);
    if (found) return found;
  }
  throw new Error(
    TARGETS.includes(name)
      ? `steadlock: the package steadlock-${name}, which has the native library for this machine, is not installed. ` +
          'npm leaves it out with --omit=optional, and with a package-lock.json or node_modules of another system: ' +
          'remove both and run npm install'
      : `steadlock: there is no native library for ${name}, only for ${TARGETS.join(', ')}; ` +
          'build it on this machine from https://github.com/steadlock/steadlock',
  );
}

function tried(name: string, place: Place): Binding | undefined {
  try {
    return place(name) as Binding | undefined;
  } catch (cause) {
    throw new Error(`steadlock: the native library for ${name} cannot be loaded here: ${cause}`, { cause });
  }
}

export const native: Binding = load(target(), built, installed);

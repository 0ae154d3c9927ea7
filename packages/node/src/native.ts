// Loads the native library for this machine.

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
  NativeLock,
  NativeMetric,
  NativeObservation,
  NativeReached,
  Vocabulary,
} from '../native/binding';

/** The additional argument for opening a client: the function of `addressMap`, if it is a function. */
export type Opening = ((announced: string) => NativeReached) | undefined;

/** Returns the name of this platform in the file names of the build, such as `linux-x64-gnu`. */
function target(): string {
  const { platform, arch } = process;
  if (platform === 'linux') return `linux-${arch}-${cLibrary()}`;
  return platform === 'win32' ? `win32-${arch}-msvc` : `${platform}-${arch}`;
}

/**
 * Returns the C library of this process. A diagnostic report would contain it too, but making a report blocks: it looks
 * up the host name of every socket's peer.
 */
function cLibrary(): 'gnu' | 'musl' {
  try {
    return cLibraryIn(readFileSync('/proc/self/maps', 'utf8'));
  } catch {
    return 'gnu';
  }
}

/**
 * @internal Returns the C library in a list of mapped files. With musl, the loader is the C library:
 * `ld-musl-x86_64.so.1`.
 */
export function cLibraryIn(maps: string): 'gnu' | 'musl' {
  return /\/ld-musl-[^/]*$/m.test(maps) ? 'musl' : 'gnu';
}

/** The platforms for which npm has a package. */
const TARGETS = [
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-gnu',
  'linux-arm64-musl',
  'linux-x64-gnu',
  'linux-x64-musl',
  'win32-x64-msvc',
];

/** Loads the native library for a platform; returns `undefined` if it is not there. */
type Place = (name: string) => unknown;

/** Loads the library that was built in this checkout. A bundle in the form of an ES module has no `__filename`. */
const built: Place = (name) => {
  if (typeof __filename === 'undefined') return undefined;
  try {
    return createRequire(__filename)(`../native/steadlock.${name}.node`);
  } catch (error) {
    return undefinedIfMissing(error);
  }
};

/**
 * Loads the library from the package that npm installs beside this one on a machine of this platform. Each `require` is
 * written out, because tools that copy the dependencies of a program search for these names. Inside `try`, bundlers
 * tolerate packages that are missing.
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
    return undefinedIfMissing(error);
  }
  return undefined;
};

/** Returns `undefined` if the module does not exist. Throws the error of a module that exists but does not load. */
function undefinedIfMissing(error: unknown): undefined {
  if ((error as NodeJS.ErrnoException).code !== 'MODULE_NOT_FOUND') throw error;
}

/** @internal Returns the native library for the platform `name`, from the first place that has it. */
export function load(name: string, ...places: Place[]): Binding {
  for (const place of places) {
    const found = loadFrom(name, place);
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

function loadFrom(name: string, place: Place): Binding | undefined {
  try {
    return place(name) as Binding | undefined;
  } catch (cause) {
    throw new Error(`steadlock: the native library for ${name} cannot be loaded here: ${cause}`, { cause });
  }
}

export const native: Binding = load(target(), built, installed);

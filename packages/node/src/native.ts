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

/**
 * @internal The native library for `name`: of this folder, where it was built, or of the package that npm installs
 * beside this one on such a machine.
 */
export function load(name: string, require: NodeJS.Require): Binding {
  const [built, installed] = [`../native/leasehold.${name}.node`, `@leasehold/${name}`];
  for (const place of [built, installed]) {
    if (!isThere(place, require)) continue;
    try {
      return require(place) as Binding;
    } catch (cause) {
      throw new Error(`leasehold: the native library ${require.resolve(place)} cannot be loaded here: ${cause}`, {
        cause,
      });
    }
  }
  throw new Error(
    TARGETS.includes(name)
      ? `leasehold: the package ${installed}, which has the native library for this machine, is not installed. ` +
          'npm leaves it out with --omit=optional, and with a package-lock.json or node_modules of another system: ' +
          'remove both and run npm install'
      : `leasehold: there is no native library for ${name}, only for ${TARGETS.join(', ')}; ` +
          'build it on this machine from https://github.com/leasehold/leasehold',
  );
}

function isThere(place: string, require: NodeJS.Require): boolean {
  try {
    require.resolve(place);
    return true;
  } catch {
    return false;
  }
}

export const native: Binding = load(target(), createRequire(__filename));

// Loads the native library that belongs to this machine.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

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

function load(): Binding {
  const file = join(__dirname, '..', 'native', `leasehold.${target()}.node`);
  try {
    return createRequire(__filename)(file) as Binding;
  } catch (cause) {
    throw new Error(
      `leasehold has no native library that works for ${target()} (${file}); ` +
        'install the package on this machine, or build it there with `npm ci && npm run build`',
      { cause },
    );
  }
}

export const native: Binding = load();

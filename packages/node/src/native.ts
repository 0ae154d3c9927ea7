// Loads the native library that belongs to this machine.

import { createRequire } from 'node:module';
import { join } from 'node:path';

type Binding = typeof import('../native/binding');

export type { NativeClient, NativeFailure, NativeHolder } from '../native/binding';

/** `linux-x64-gnu` and the like, as the build names its file. */
function target(): string {
  const { platform, arch } = process;
  if (platform === 'linux') {
    const report = process.report?.getReport() as { header?: { glibcVersionRuntime?: string } } | undefined;
    return `linux-${arch}-${report?.header?.glibcVersionRuntime ? 'gnu' : 'musl'}`;
  }
  return platform === 'win32' ? `win32-${arch}-msvc` : `${platform}-${arch}`;
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

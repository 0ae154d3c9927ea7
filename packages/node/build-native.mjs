// Builds the native library for this machine and puts it where `src/native.ts` looks for it.
//
//   node build-native.mjs          builds the release library
//   node build-native.mjs --dev    builds a debug library: quick to build, slow to run
//
// If STEADLOCK_BUILT names a folder, the library in it is copied instead.

import { spawnSync } from 'node:child_process';
import { copyFileSync, readFileSync, renameSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = join(here, '..', '..');
const profile = process.argv.includes('--dev') ? 'dev' : 'release';

const options = profile === 'dev' ? ['build', '--locked', '--package', 'steadlock-node'] : ['native'];
const given = process.env.STEADLOCK_BUILT;
if (!given) {
  const { status } = spawnSync('cargo', [...options, '--quiet'], { cwd: root, stdio: 'inherit' });
  if (status !== 0) process.exit(status ?? 1);
}

const { platform, arch } = process;
// The same check as in `src/native.ts`.
const isMusl = () => /\/ld-musl-[^/]*$/m.test(readFileSync('/proc/self/maps', 'utf8'));
const built = {
  darwin: ['libsteadlock_node.dylib', `darwin-${arch}`],
  win32: ['steadlock_node.dll', `win32-${arch}-msvc`],
}[platform] ?? ['libsteadlock_node.so', `linux-${arch}-${isMusl() ? 'musl' : 'gnu'}`];
const target = process.env.CARGO_TARGET_DIR ?? join(root, 'target');
const folder = given || join(target, profile === 'dev' ? 'debug' : 'release');
const library = join(here, 'native', `steadlock.${built[1]}.node`);
// Written to another file first: a running process has the old file mapped, and would crash if its content changed.
const fresh = `${library}.${process.pid}`;
copyFileSync(join(folder, built[0]), fresh);
renameSync(fresh, library);

// The package must contain the licences. npm does not pack links, so the files are copied.
for (const file of ['LICENSE-APACHE', 'LICENSE-MIT', 'THIRD-PARTY-LICENSES.txt'])
  copyFileSync(join(root, file), join(here, file));

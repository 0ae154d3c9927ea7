// Builds the core as WebAssembly, and puts it where `src/wasm.ts` searches for it.
//
//   node build-wasm.mjs            builds the core into build/wasm
//   node build-wasm.mjs --copy     copies the core into dist, as a file and in a script; tsc makes dist anew before

import { spawnSync } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, readFileSync, statSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { gzipSync } from 'node:zlib';

const here = fileURLToPath(new URL('.', import.meta.url));
const root = join(here, '..', '..');
const built = join(here, 'build', 'wasm');

// The features that every current host has; see https://webassembly.org/features.
const FEATURES = [
  'bulk-memory',
  'multivalue',
  'mutable-globals',
  'nontrapping-float-to-int',
  'reference-types',
  'sign-ext',
].map((feature) => `--enable-${feature}`);
// The options with the smallest module after gzip, by measurement. None of them assumes that the code never traps.
const SMALL = [
  '--always-inline-max-function-size=0',
  '--one-caller-inline-max-function-size=0',
  '--flexible-inline-max-function-size=0',
  '--low-memory-unused',
  '--zero-filled-memory',
  '--flatten',
  '--rereloop',
  '-Oz',
  '-Oz',
  '--converge',
  // Puts similar functions next to each other, which gzip compresses better.
  '-g',
  '--reorder-functions-by-name',
];
const WITHOUT_NAMES = ['--strip-debug', '--strip-producers'];

if (process.argv.includes('--copy')) copy();
else build();

function build() {
  const target = 'wasm32-unknown-unknown';
  const options = ['--quiet', '--locked', '--package', 'steadlock-wasm', '--target', target, '--profile', 'wasm'];
  run('cargo', ['build', ...options], root);
  const library = join(process.env.CARGO_TARGET_DIR ?? join(root, 'target'), target, 'wasm', 'steadlock_wasm.wasm');
  const [from, to] = [join(built, 'glue_bg.wasm'), join(built, 'steadlock.wasm')];
  const bindgen = join(root, 'bindings', 'wasm-bindgen', 'src', 'main.rs');
  const made = [library, bindgen, fileURLToPath(import.meta.url), join(here, 'package-lock.json')];
  if (existsSync(to) && made.every((file) => statSync(file).mtimeMs < statSync(to).mtimeMs)) return declare();
  mkdirSync(built, { recursive: true });
  const generator = ['--package', 'steadlock-wasm-bindgen', '--profile', 'generator'];
  run('cargo', ['run', '--quiet', '--locked', ...generator, '--', library, built], root);
  shortenNames(from, join(built, 'glue.js'));
  const optimizer = join(here, 'node_modules', 'binaryen', 'bin', 'wasm-opt');
  const named = join(built, 'named.wasm');
  run(process.execPath, [optimizer, ...FEATURES, ...SMALL, from, '-o', named], here);
  run(process.execPath, [optimizer, ...FEATURES, ...WITHOUT_NAMES, named, '-o', to], here);
  declare();
  console.log(`steadlock.wasm: ${gzipSync(readFileSync(to), { level: 9 }).length} bytes gzipped`);
}

/**
 * Replaces the random digits in the names of imports, which gzip cannot compress, by a counter of the same length. Each
 * name occurs twice.
 */
function shortenNames(wasm, glue) {
  let [bytes, text] = [readFileSync(wasm, 'latin1'), readFileSync(glue, 'utf8')];
  const names = new Set(text.match(/__wbg_\w+_[0-9a-f]{16}\b/g));
  if (names.size === 0) throw new Error('glue.js has no longer names with digits');
  for (const [count, name] of [...names].entries()) {
    const short = `${name.slice(0, -16)}${`${count}`.padStart(16, '0')}`;
    if (!bytes.includes(name)) throw new Error(`the module does not import ${name}`);
    bytes = bytes.replaceAll(name, short);
    text = text.replaceAll(name, short);
  }
  writeFileSync(wasm, bytes, 'latin1');
  writeFileSync(glue, text);
}

/** Copies the declarations of the core's exports to where `tsc` searches for them. */
function declare() {
  copyFileSync(join(built, 'glue.d.ts'), join(here, 'src', 'glue.d.ts'));
}

function copy() {
  copyFileSync(join(built, 'steadlock.wasm'), join(here, 'dist', 'steadlock.wasm'));
  const packed = gzipSync(readFileSync(join(built, 'steadlock.wasm')), { level: 9 }).toString('base64');
  writeFileSync(join(here, 'dist', 'inlined-core.js'), `export default '${packed}';\n`);
  writeFileSync(join(here, 'dist', 'glue.js'), withoutLoader(readFileSync(join(built, 'glue.js'), 'utf8')));
  copyFileSync(join(built, 'glue.d.ts'), join(here, 'dist', 'glue.d.ts'));
  // The package must contain the licences. npm does not pack links, so the files are copied.
  for (const file of ['LICENSE-APACHE', 'LICENSE-MIT', 'THIRD-PARTY-LICENSES.txt'])
    copyFileSync(join(root, file), join(here, file));
}

/**
 * Removes the loader from the glue. The loader names a file that the package does not have, and is not needed: the glue
 * always gets a module.
 */
function withoutLoader(glue) {
  const [head, ...rest] = glue.split('async function __wbg_load(');
  if (rest.length !== 1 || !head.includes('function __wbg_finalize_init(instance, module)')) {
    throw new Error('glue.js is no longer made of what build-wasm.mjs expects');
  }
  // Every host with the features of the module has `encodeInto`, so the fallback is removed.
  const needed = head.replace(/if \(!\('encodeInto' in cachedTextEncoder\)\) \{[\s\S]*?\n\}\n/, '');
  return `${needed}export default async function init(module) {
    return __wbg_finalize_init(await WebAssembly.instantiate(module, __wbg_get_imports()), module);
}
`;
}

function run(command, options, cwd) {
  const { status, error } = spawnSync(command, options, { cwd, stdio: ['ignore', 'inherit', 'inherit'] });
  if (error) throw error;
  if (status !== 0) throw new Error(`${command} ended with ${status} in ${dirname(cwd)}`);
}

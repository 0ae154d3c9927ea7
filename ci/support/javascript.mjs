// Installs the packages for JavaScript as users do, and starts a server for their programs.

import { spawn } from 'node:child_process';
import { cpSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COMMAND = join(ROOT, 'target', 'release', 'steadlock');

/** Copies packages, by their folders in packages/, into a node_modules. The copies reach no file of the repository. */
export function install(modules, ...folders) {
  const copy = (from, name) => cpSync(join(ROOT, 'packages', from), join(modules, name), { recursive: true });
  for (const folder of folders) {
    const name = folder === 'web' ? 'steadlock-web' : 'steadlock';
    for (const part of ['dist', 'package.json']) copy(`${folder}/${part}`, `${name}/${part}`);
  }
  // Each platform's native library is a separate package of the same version.
  const { version } = JSON.parse(readFileSync(join(ROOT, 'packages', 'node', 'package.json'), 'utf8'));
  for (const file of readdirSync(join(ROOT, 'packages', 'node', 'native')).filter((file) => file.endsWith('.node'))) {
    const name = file.replace(/^steadlock\.(.*)\.node$/, 'steadlock-$1');
    copy(`node/native/${file}`, `${name}/${file}`);
    writeFileSync(join(modules, name, 'package.json'), JSON.stringify({ name, version, main: file }));
  }
}

/** Starts `steadlock serve`. Returns its process, its URL for Redis clients (`url`) and its HTTP URL (`rest`). */
export async function serve() {
  const options = ['serve', '--port', '0', '--http', '0', '--http-origin', '*'];
  const child = spawn(COMMAND, options, { stdio: ['ignore', 'pipe', 'inherit'] });
  let banner = '';
  child.stdout.setEncoding('utf8');
  for await (const text of child.stdout) {
    banner += text;
    const rest = /http:\/\/127\.0\.0\.1:\d+/.exec(banner)?.[0];
    const url = /redis:\/\/127\.0\.0\.1:\d+/.exec(banner)?.[0];
    if (rest !== undefined && url !== undefined) return { process: child, rest, url };
  }
  throw new Error(`${COMMAND} did not start: run ./ci/just build-cli`);
}

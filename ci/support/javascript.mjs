// The packages for JavaScript as users have them, and a server for their programs.

import { spawn } from 'node:child_process';
import { cpSync, readdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

export const ROOT = fileURLToPath(new URL('../..', import.meta.url));
const COMMAND = join(ROOT, 'target', 'release', 'steadlock');

/** Puts packages, of these folders of packages/, into a node_modules: copies, so that nothing of this repository is near. */
export function install(modules, ...folders) {
  const copy = (from, name) => cpSync(join(ROOT, 'packages', from), join(modules, name), { recursive: true });
  for (const folder of folders) {
    const name = folder === 'web' ? 'steadlock-web' : 'steadlock';
    for (const part of ['dist', 'package.json']) copy(`${folder}/${part}`, `${name}/${part}`);
  }
  // The native library comes in a package of its own.
  for (const file of readdirSync(join(ROOT, 'packages', 'node', 'native')).filter((file) => file.endsWith('.node'))) {
    const name = file.replace(/^steadlock\.(.*)\.node$/, 'steadlock-$1');
    copy(`node/native/${file}`, `${name}/${file}`);
    writeFileSync(join(modules, name, 'package.json'), JSON.stringify({ name, version: '0.1.0', main: file }));
  }
}

/** `steadlock serve`: its process, and its URLs for Redis clients and over HTTP. */
export async function serve() {
  const words = ['serve', '--port', '0', '--http', '0', '--http-origin', '*'];
  const child = spawn(COMMAND, words, { stdio: ['ignore', 'pipe', 'inherit'] });
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

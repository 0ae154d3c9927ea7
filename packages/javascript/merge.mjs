// Merges two outputs of `tsc` into one folder: that of a package's own sources and that of the sources here, which
// import each other as neighbours. Runs in the package's folder.
//
//   node ../javascript/merge.mjs src dist
//   node ../javascript/merge.mjs test build/test

import { cpSync, existsSync, rmSync } from 'node:fs';
import { basename, join } from 'node:path';

const [sources, target] = process.argv.slice(2);
// Removes output of sources that do not exist any more, so that it is not shipped.
rmSync(target, { recursive: true, force: true });
for (const part of ['javascript', basename(process.cwd())]) {
  const folder = join('build', `tsc-${sources}`, part, sources);
  if (!existsSync(folder)) throw new Error(`tsc made no ${folder}`);
  cpSync(folder, target, { recursive: true });
}

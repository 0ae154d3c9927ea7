// Runs `steadlock serve --http` in a process.

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const COMMAND =
  process.env.STEADLOCK_COMMAND ?? fileURLToPath(new URL('../../target/release/steadlock', import.meta.url));

/** Starts a server on free ports. Returns its HTTP URL and a function that stops it, once it listens. */
export async function serve(token) {
  const folder = mkdtempSync(join(tmpdir(), 'steadlock-upstash-'));
  const file = join(folder, 'token');
  writeFileSync(file, token);
  const child = spawn(COMMAND, ['serve', '--port', '0', '--http', '0', '--http-token-file', file], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise((resolve, reject) => {
    child.once('exit', resolve);
    child.once('error', reject);
  });
  let url;
  for await (const line of createInterface({ input: child.stdout })) {
    url = line.match(/^steadlock: http on (.*)$/)?.[1];
    if (url) break;
  }
  if (!url) throw new Error(`${COMMAND} ended before it listened: ${await ended}`);
  const stop = async () => {
    child.kill();
    await ended;
    rmSync(folder, { recursive: true });
  };
  return { url, stop };
}

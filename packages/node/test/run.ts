// Runs programs in a process of their own.

import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

export interface Ended {
  readonly code: number | null;
  readonly output: string;
  readonly errors: string;
  /** The time from the program's last output to its end. */
  readonly lingeredMs: number;
}

/** Runs an ES module given as text, in a process of its own, with `url` as its server. */
export async function run(program: string, url: string, onOutput?: (output: string) => void): Promise<Ended> {
  const child = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    cwd: join(__dirname, '..', '..'),
    env: { ...process.env, STEADLOCK_URL: url },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  let output = '';
  let errors = '';
  let lastOutputAt = performance.now();
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    lastOutputAt = performance.now();
    output += text;
    onOutput?.(output);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  const ended = once(child, 'exit').then(() => performance.now());
  const [code] = await once(child, 'close');
  return { code, output, errors, lingeredMs: (await ended) - lastOutputAt };
}

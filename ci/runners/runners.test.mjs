// Tests that test runners do not complain about a program that has closed its client, and that they end by themselves.
// The packages are installed as for users. Each runner looks for open handles in its own way.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { install, serve } from '../support/javascript.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
/** A runner takes a second or two. One that waits for an open handle would never end. */
const DEADLINE_MS = 60_000;
/** The words of Jest and Vitest for handles that are left open. */
const COMPLAINTS =
  /open handle|did not exit|not exited|asynchronous operations|leak|hanging|close timed out|preventing/i;

const TESTED = `
test('a lock is held and lost, and its client is closed', async () => {
  const client = await connect(process.env.STEADLOCK_URL);
  client.events.on('lost', () => {});
  const held = await client.lock('held').lock();
  held.signal.addEventListener('abort', () => {});
  expect(await client.using('used', () => client.lock('free').isLocked())).toBe(false);
  await client.close();
  expect(await held.release()).toBe('released');
});
`;
const LEFT_OPEN = `
test('a server is left open', () => {
  require('node:net').createServer().listen(0);
});
`;

const project = mkdtempSync(join(tmpdir(), 'steadlock-runners-'));
let server;

before(async () => {
  const modules = join(project, 'node_modules');
  mkdirSync(modules);
  const runners = join(HERE, 'node_modules');
  for (const name of readdirSync(runners)) symlinkSync(join(runners, name), join(modules, name));
  install(modules, 'node');
  writeFileSync(join(project, 'package.json'), '{ "private": true }');
  server = await serve();
});

after(() => {
  server.process.kill();
  rmSync(project, { recursive: true });
});

it('Jest finds no open handle of a closed client, and ends', async () => {
  const folder = written('jest', 'lock.test.js', `const { connect } = require('steadlock');\n${TESTED}`);
  const { status, said } = await run('jest', ['--rootDir', folder, '--detectOpenHandles']);
  assert.equal(status, 0, said);
  assert.match(said, /1 passed/);
  assert.doesNotMatch(said, COMPLAINTS);
});

it('Jest would have said so', async () => {
  const folder = written('jest-of-another', 'open.test.js', LEFT_OPEN);
  const { said } = await run('jest', ['--rootDir', folder, '--detectOpenHandles', '--forceExit']);
  assert.match(said, COMPLAINTS);
});

it('Vitest finds nothing that hangs, and ends', async () => {
  const imports = "import { expect, test } from 'vitest';\nimport { connect } from 'steadlock';\n";
  const folder = written('vitest', 'lock.test.mjs', imports + TESTED);
  for (const pool of ['forks', 'threads']) {
    const words = ['run', '--root', folder, `--pool=${pool}`, '--reporter=default', '--reporter=hanging-process'];
    const { status, said } = await run('vitest', words);
    assert.equal(status, 0, said);
    assert.match(said, /1 passed/);
    assert.doesNotMatch(said, COMPLAINTS);
  }
});

/** Makes a folder of the project with one file, and returns the folder. */
function written(name, file, text) {
  const folder = join(project, name);
  mkdirSync(folder);
  writeFileSync(join(folder, file), text);
  return folder;
}

function run(runner, words) {
  const env = { PATH: process.env.PATH, HOME: project, STEADLOCK_URL: server.url, CI: 'true', NO_COLOR: '1' };
  const options = { cwd: project, env, timeout: DEADLINE_MS };
  const program = join(project, 'node_modules', '.bin', runner);
  return new Promise((resolve) => {
    execFile(program, words, options, (error, output, errors) => {
      resolve({ status: error?.code ?? error?.signal ?? 0, said: `${output}\n${errors}` });
    });
  });
}

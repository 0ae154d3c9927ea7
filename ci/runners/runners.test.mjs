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
/** The warnings of Jest and Vitest about handles that are left open. */
const WARNINGS = /open handle|did not exit|not exited|asynchronous operations|leak|hanging|close timed out|preventing/i;

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
  const folder = write('jest', 'lock.test.js', `const { connect } = require('steadlock');\n${TESTED}`);
  const { status, output } = await run('jest', ['--rootDir', folder, '--detectOpenHandles']);
  assert.equal(status, 0, output);
  assert.match(output, /1 passed/);
  assert.doesNotMatch(output, WARNINGS);
});

it('Jest reports an open handle of another program', async () => {
  const folder = write('jest-open-handle', 'open.test.js', LEFT_OPEN);
  const { output } = await run('jest', ['--rootDir', folder, '--detectOpenHandles', '--forceExit']);
  assert.match(output, WARNINGS);
});

it('Vitest finds no hanging process, and ends', async () => {
  const imports = "import { expect, test } from 'vitest';\nimport { connect } from 'steadlock';\n";
  const folder = write('vitest', 'lock.test.mjs', imports + TESTED);
  for (const pool of ['forks', 'threads']) {
    const options = ['run', '--root', folder, `--pool=${pool}`, '--reporter=default', '--reporter=hanging-process'];
    const { status, output } = await run('vitest', options);
    assert.equal(status, 0, output);
    assert.match(output, /1 passed/);
    assert.doesNotMatch(output, WARNINGS);
  }
});

/** Makes a folder of the project with one file, and returns the folder. */
function write(name, file, text) {
  const folder = join(project, name);
  mkdirSync(folder);
  writeFileSync(join(folder, file), text);
  return folder;
}

function run(runner, options) {
  const env = { PATH: process.env.PATH, HOME: project, STEADLOCK_URL: server.url, CI: 'true', NO_COLOR: '1' };
  const settings = { cwd: project, env, timeout: DEADLINE_MS };
  const program = join(project, 'node_modules', '.bin', runner);
  return new Promise((resolve) => {
    execFile(program, options, settings, (error, stdout, stderr) => {
      resolve({ status: error?.code ?? error?.signal ?? 0, output: `${stdout}\n${stderr}` });
    });
  });
}

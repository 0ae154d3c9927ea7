// Tests of where the core comes from: a file beside its script, a script that contains the core, or nowhere.

import assert from 'node:assert/strict';
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { build, type Format, type Platform } from 'esbuild';
import { ROOT } from './package.js';
import { RedisServer } from './server.js';

const run = promisify(execFile);

describe('the core', () => {
  let server: RedisServer;
  let folder: string;

  before(async () => {
    server = await RedisServer.start();
    folder = mkdtempSync(join(tmpdir(), 'steadlock-loading-'));
  });

  after(async () => {
    rmSync(folder, { recursive: true });
    await server[Symbol.asyncDispose]();
  });

  /** Bundles a program, runs the bundle in a folder without other files, and returns its output. */
  async function outputOf(format: Format, platform: Platform, first = '', fetched = ''): Promise<string> {
    const program = `${first}
import { connect } from 'steadlock-web';
import { tcp } from '${ROOT}packages/web/dist/adapters/tcp.js';
import { connect as dial } from 'node:net';
import { Readable, Writable } from 'node:stream';
const open = ({ port, hostname }) => {
  const socket = dial(port, hostname);
  return { readable: Readable.toWeb(socket), writable: Writable.toWeb(socket), close: () => socket.destroy() };
};
${fetched}
async function main() {
  const started = performance.now();
  const redis = tcp('${server.url}', open);
  const client = await connect(redis, { connectTimeoutMs: 30_000 }).catch((error) => error);
  if (client instanceof Error) {
    return [client.kind, client.retryable, performance.now() - started < 10_000, client.message].join(' ');
  }
  const text = await client.using('loaded', (lease) => 'held ' + lease.isValid);
  await client.close();
  redis.close();
  return text;
}
main().then((text) => console.log(text));
`;
    const file = join(folder, `main.${format === 'cjs' ? 'cjs' : 'mjs'}`);
    const { outputFiles } = await build({
      stdin: { contents: program, resolveDir: join(ROOT, 'packages', 'web') },
      outfile: file,
      bundle: true,
      write: false,
      format,
      platform,
      external: ['node:*'],
      logLevel: 'silent',
    });
    writeFileSync(file, outputFiles[0]?.contents as Uint8Array);
    const { stdout } = await run(process.execPath, [file], { cwd: folder });
    return stdout.trim();
  }

  it('is included in server bundles, as a module and as CommonJS', async () => {
    for (const format of ['esm', 'cjs'] as const) assert.equal(await outputOf(format, 'node'), 'held true', format);
    assert.equal(await outputOf('esm', 'neutral'), 'held true');
  });

  it('is included in a page that imports it', async () => {
    for (const format of ['esm', 'cjs'] as const) {
      assert.equal(await outputOf(format, 'browser', "import 'steadlock-web/inlined';"), 'held true', format);
    }
  });

  it('causes an error with advice if it is missing', async () => {
    for (const format of ['esm', 'cjs'] as const) {
      const text = await outputOf(format, 'browser');
      assert.match(text, /^Misconfigured false true .*import 'steadlock-web\/inlined'.*useCore/, format);
    }
  });

  it('causes an error if `useCore` gets something that is not the core', async () => {
    const use = "import { useCore } from 'steadlock-web';";
    for (const [given, cause] of [
      ['new Uint8Array([1, 2, 3])', /expected 4 bytes/],
      ['Promise.resolve()', /must be a buffer source/],
      ["new Response('', { status: 404 })", /it was answered with 404/],
      ['new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0])', /is not a function/],
    ] as const) {
      const text = await outputOf('esm', 'browser', use, `useCore(${given});`);
      assert.match(text, /^Misconfigured false true the argument of `useCore` is not the core/);
      assert.match(text, cause);
    }
  });

  it('causes a retryable error if its file cannot be fetched', async () => {
    const use = "import { useCore } from 'steadlock-web';";
    const text = await outputOf('esm', 'browser', use, "useCore('http://127.0.0.1:1/steadlock.wasm');");
    assert.match(text, /^Unavailable true true .*could not be fetched.*/);
  });
});

// Runs the same scenario in every supported runtime, each with a suitable adapter.

import assert from 'node:assert/strict';
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, it } from 'node:test';
import { promisify } from 'node:util';
import { build } from 'esbuild';
import { ROOT } from './package.js';
import { EmbeddedServer, end, eventually, freePort, RedisServer, unusedPort } from './server.js';

const PACKAGE = join(ROOT, 'packages', 'web');
const RUNTIMES = join(PACKAGE, 'test', 'runtimes');
const run = promisify(execFile);
const { EXPECTED_LINES } = (await import(join(RUNTIMES, 'scenario.mjs'))) as { EXPECTED_LINES: string[] };

describe('the same scenario', { concurrency: 2 }, () => {
  let server: RedisServer;
  let unreachable: string;

  before(async () => {
    server = await RedisServer.start();
    unreachable = `redis://127.0.0.1:${await unusedPort()}`;
  });

  after(() => server[Symbol.asyncDispose]());

  const programs = {
    node: [process.execPath, 'node.mjs'],
    deno: [bin('deno'), 'run', '--quiet', '--no-config', '--allow-net', '--allow-read', 'deno.mjs'],
    bun: [bin('bun'), 'bun.mjs'],
  };
  for (const [runtime, [program, ...words]] of Object.entries(programs)) {
    it(`in ${runtime}`, { timeout: 60_000 }, async () => {
      const { stdout } = await run(program as string, [...words, server.url, unreachable], { cwd: RUNTIMES });
      assert.deepEqual(JSON.parse(stdout), EXPECTED_LINES);
    });
  }

  // These tests run one after another, because they share a thread, which the last test keeps busy.
  describe('in workerd', { concurrency: 1 }, () => {
    let folder: string;
    let port: number;
    let workerd: ChildProcess;
    let errors = '';

    before(async () => {
      folder = mkdtempSync(join(tmpdir(), 'steadlock-workerd-'));
      const files = await bundle(folder);
      // Another program can take the port after it was found free.
      for (let attempt = 1; !(await isStarted(files)); attempt += 1) assert.ok(attempt < 5, errors);
    });

    /** Starts workerd on a free port, and waits until it answers. Returns false if it has ended. */
    const isStarted = async (files: readonly string[]) => {
      port = await freePort();
      writeFileSync(join(folder, 'config.capnp'), configuration(files, port));
      workerd = spawn(bin('workerd'), ['serve', 'config.capnp'], { cwd: folder, stdio: ['ignore', 'ignore', 'pipe'] });
      workerd.stderr?.setEncoding('utf8').on('data', (text: string) => {
        errors += text;
      });
      await eventually(20_000, async () => {
        if (workerd.exitCode !== null) return true;
        return (await fetch(`http://127.0.0.1:${port}/frozen`).catch(() => undefined)) !== undefined;
      });
      return workerd.exitCode === null;
    };

    after(async () => {
      await end(workerd, 'SIGTERM');
      rmSync(folder, { recursive: true });
    });

    const ask = async (path: string, query: Record<string, string>) => {
      const response = await fetch(`http://127.0.0.1:${port}${path}?${new URLSearchParams(query)}`);
      const text = await response.text();
      assert.equal(response.status, 200, `${text}${errors}`);
      return JSON.parse(text) as unknown;
    };

    it('over TCP, in one request after another', { timeout: 60_000 }, async () => {
      for (let request = 0; request < 2; request += 1) {
        assert.deepEqual(await ask('/', { url: server.url, unreachable }), EXPECTED_LINES);
      }
    });

    it('over HTTP', { timeout: 60_000 }, async () => {
      await using rest = await EmbeddedServer.start('--http', '0');
      assert.deepEqual(
        await ask('/', { http: rest.http, unreachable: unreachable.replace('redis', 'http') }),
        EXPECTED_LINES,
      );
    });

    it('a lease that expires while the Worker computes is found at the next call', { timeout: 60_000 }, async () => {
      const result = (await ask('/frozen', { url: server.url })) as Record<string, unknown>;
      console.log(`a Worker's clock: ${JSON.stringify(result)}`);
      assert.equal(result.asked, 'LockLost');
      assert.equal(result.after, false);
    });
  });
});

function bin(name: string): string {
  return join(PACKAGE, 'node_modules', '.bin', name);
}

/** Bundles a Worker as Cloudflare's tools do: with the condition `workerd`, and the WebAssembly file beside it. */
async function bundle(folder: string): Promise<string[]> {
  await build({
    entryPoints: [join(RUNTIMES, 'worker.mjs')],
    bundle: true,
    format: 'esm',
    conditions: ['workerd'],
    external: ['cloudflare:*', 'node:*'],
    loader: { '.wasm': 'copy' },
    outdir: folder,
    outExtension: { '.js': '.mjs' },
    assetNames: '[name]',
    logLevel: 'silent',
  });
  return readdirSync(folder);
}

function configuration(files: readonly string[], port: number): string {
  // workerd runs the first module.
  const modules = [...files].sort((one, other) => Number(other === 'worker.mjs') - Number(one === 'worker.mjs'));
  const module = (file: string) =>
    `(name = "${file}", ${file.endsWith('.wasm') ? 'wasm' : 'esModule'} = embed "${file}")`;
  return `using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = (compatibilityDate = "2025-09-01", modules = [${modules.map(module).join(', ')}])),
    (name = "internet", network = (allow = ["private", "public"]))
  ],
  sockets = [(name = "http", address = "127.0.0.1:${port}", http = (), service = "main")]
);
`;
}

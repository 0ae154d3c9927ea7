// Tests of the package as users get it: its names compared with those of the Node package, its size, and its files.

import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { describe, it } from 'node:test';
import { gzipSync } from 'node:zlib';
import { build } from 'esbuild';
import type * as node from 'steadlock';
import * as web from 'steadlock-web';
import { ROOT } from './package.js';

const PACKAGE = join(ROOT, 'packages', 'web');
/**
 * The limit for the files that a page loads: the core and the glue, gzipped. One kilobyte of it is for the names of the
 * options and the rows of the metrics. They are in the core, so that they are written only once. 13 kilobytes of it are
 * for jobs and leaders.
 */
const LIMIT_BYTES = 228_000;

type Same<One, Other> = [One] extends [Other] ? ([Other] extends [One] ? true : never) : never;
type Names<T> = keyof T;
type Class = new (...given: unknown[]) => unknown;

/** Fails to compile if a name of one package is missing in the other. */
const SAME: true[] = [
  true satisfies Same<Names<web.Client>, Names<node.Client>>,
  true satisfies Same<Names<web.Lock>, Names<node.Lock>>,
  true satisfies Same<Names<web.Lease>, Names<node.Lease>>,
  true satisfies Same<Names<web.Semaphore>, Names<node.Semaphore>>,
  true satisfies Same<Names<web.ReadWriteLock>, Names<node.ReadWriteLock>>,
  true satisfies Same<Names<web.AcquireOptions>, Names<node.AcquireOptions>>,
  true satisfies Same<Names<web.LockOptions>, Names<node.LockOptions>>,
  true satisfies Same<Names<web.CallOptions>, Names<node.CallOptions>>,
  true satisfies Same<Names<web.PermitOptions>, Names<node.PermitOptions>>,
  true satisfies Same<Names<web.UsingOptions>, Names<node.UsingOptions>>,
  true satisfies Same<Names<web.Holder>, Names<node.Holder>>,
  true satisfies Same<Names<web.ClientInfo>, Names<node.ClientInfo>>,
  true satisfies Same<Names<web.Observation>, Names<node.Observation>>,
  true satisfies Same<Names<web.ClientEvents>, Names<node.ClientEvents>>,
  true satisfies Same<Names<web.SteadlockError>, Names<node.SteadlockError>>,
  true satisfies Same<web.ErrorKind, node.ErrorKind>,
  true satisfies Same<web.LostReason, node.LostReason>,
  true satisfies Same<web.ReleaseOutcome, node.ReleaseOutcome>,
  true satisfies Same<web.OnUnavailable, node.OnUnavailable>,
  // The program's own client has the options for connections.
  true satisfies Same<
    Names<web.ConnectOptions> | 'addressMap' | 'tlsCaFile' | 'tlsCertFile' | 'tlsKeyFile' | 'tlsServerName',
    Names<node.ConnectOptions>
  >,
];

describe('the package', () => {
  it('exports the names of the Node package, and those for hosts', () => {
    assert.ok(SAME.every(Boolean));
    const names = (file: string) => {
      const program = `import * as all from ${JSON.stringify(file)}; console.log(Object.keys(all).filter((name) => name !== '__esModule').join(' '))`;
      const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], { encoding: 'utf8' });
      return stdout.trim().split(' ').sort();
    };
    const more = ['ReplyError', 'useCore'];
    const mine = names(join(PACKAGE, 'dist', 'index.js'));
    assert.deepEqual(mine, [...names(join(ROOT, 'packages', 'node', 'dist', 'index.mjs')), ...more].sort());
    assert.deepEqual(mine, Object.keys(web).sort());
  });

  it('has classes for instanceof and injection that cannot be constructed', async () => {
    const client = await web.connect({ eval: async () => ['0', '1', '1', '1', '1', '1'] }, { lazy: true });
    assert.ok(client instanceof web.Client);
    assert.ok(client.lock('a') instanceof web.Lock);
    assert.ok(client.semaphore('s', 1) instanceof web.Semaphore);
    assert.ok(client.readWriteLock('rw') instanceof web.ReadWriteLock);
    await client.close();
    const { Client, Lock, Semaphore, ReadWriteLock, Lease } = web;
    const classes = { Client, Lock, Semaphore, ReadWriteLock, Lease } as unknown as Record<string, Class>;
    for (const [name, Class] of Object.entries(classes)) {
      for (const given of [[], [client], [{}, 'a', 1]]) {
        assert.throws(
          () => new Class(...given),
          (error) =>
            error instanceof web.InvalidArgumentError &&
            error.message.startsWith(`${name} cannot be made by new; connect() returns a client`),
        );
      }
    }
    // The same holds before the first client, when the core is not loaded yet.
    const program = `import * as web from 'steadlock-web';
      for (const name of ${JSON.stringify(Object.keys(classes))}) try { new web[name]() } catch (error) { console.log(error.name, error.message) }`;
    const options = { cwd: PACKAGE, encoding: 'utf8' } as const;
    const { stdout } = spawnSync(process.execPath, ['--input-type=module', '--eval', program], options);
    const lines = stdout.trim().split('\n');
    assert.deepEqual(
      lines.map((line) => line.split(' ', 2).join(' ')),
      Object.keys(classes).map((name) => `InvalidArgumentError ${name}`),
    );
  });

  it('is small', async () => {
    // The files of a page: the bundle of the package with one adapter, and the core.
    const { outputFiles } = await build({
      stdin: {
        contents: "export * from 'steadlock-web'; export { upstash } from 'steadlock-web/upstash';",
        resolveDir: PACKAGE,
      },
      bundle: true,
      minify: true,
      write: false,
      format: 'esm',
      target: 'es2022',
    });
    const gzipped = (bytes: Uint8Array) => gzipSync(bytes, { level: 9 }).length;
    const script = gzipped(outputFiles[0]?.contents as Uint8Array);
    const wasm = gzipped(readFileSync(join(PACKAGE, 'dist', 'steadlock.wasm')));
    const total = script + wasm;
    console.log(
      `steadlock-web: ${total} bytes gzipped (WebAssembly ${wasm}, JavaScript ${script}); limit ${LIMIT_BYTES}`,
    );
    assert.ok(total < LIMIT_BYTES);
  });

  it('contains exactly its exported files, their types and its licences', () => {
    const { stdout } = spawnSync('npm', ['pack', '--dry-run', '--json'], { cwd: PACKAGE, encoding: 'utf8' });
    const [{ files }] = JSON.parse(stdout) as [{ files: { path: string }[] }];
    const packed = new Set(files.map(({ path }) => path));
    const { exports, typesVersions } = JSON.parse(readFileSync(join(PACKAGE, 'package.json'), 'utf8')) as {
      exports: Record<string, string | Record<string, string>>;
      typesVersions: Record<'*', Record<string, string[]>>;
    };
    // Tools that resolve like Node 10 find the same types.
    for (const [path, entry] of Object.entries(exports))
      if (typeof entry !== 'string' && path !== '.') assert.deepEqual(typesVersions['*'][path.slice(2)], [entry.types]);
    for (const file of Object.values(exports).flatMap((entry) =>
      typeof entry === 'string' ? entry : Object.values(entry),
    )) {
      assert.ok(packed.has(file.slice(2)), file);
      assert.ok(statSync(join(PACKAGE, file)).size > 0);
    }
    for (const path of packed)
      assert.match(path, /^(dist\/|LICENSE-|THIRD-PARTY-LICENSES\.txt|package\.json|README\.md)/);
    assert.ok(packed.has('LICENSE-MIT') && packed.has('README.md'));
  });
});

// Each bundler, with only the options that a user needs. Each function returns the file to run, or nothing if the
// bundler does not support the target.

import { mkdirSync, writeFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import commonjs from '@rollup/plugin-commonjs';
import nodeResolve from '@rollup/plugin-node-resolve';
import esbuild from 'esbuild';
import { rollup } from 'rollup';
import * as vite from 'vite';
import webpack from 'webpack';

const ncc = createRequire(import.meta.url)('@vercel/ncc');

/** The native package, which is left out of the bundle if `isExternal`. */
const NATIVE = /^steadlock(\/|$)/;

/** `target` is `esm`, `cjs` or `browser`. With `isExternal` the bundle imports the native package from node_modules. */
export const BUNDLERS = {
  async esbuild(entry, folder, target, isExternal) {
    const outfile = join(folder, target === 'cjs' ? 'main.cjs' : 'main.mjs');
    await esbuild.build({
      entryPoints: [entry],
      outfile,
      bundle: true,
      platform: target === 'browser' ? 'browser' : 'node',
      format: target === 'cjs' ? 'cjs' : 'esm',
      loader: { '.node': 'copy' },
      external: isExternal ? ['steadlock'] : [],
      logLevel: 'silent',
    });
    return outfile;
  },

  async rollup(entry, folder, target, isExternal) {
    const browser = target === 'browser';
    const bundle = await rollup({
      input: entry,
      external: isExternal ? [NATIVE] : [],
      plugins: [nodeResolve({ browser, preferBuiltins: !browser }), commonjs()],
      onLog() {},
    });
    const extension = target === 'cjs' ? 'cjs' : 'mjs';
    await bundle.write({
      dir: folder,
      format: target === 'cjs' ? 'cjs' : 'es',
      entryFileNames: `main.${extension}`,
      chunkFileNames: `[name].${extension}`,
    });
    await bundle.close();
    return join(folder, `main.${extension}`);
  },

  async vite(entry, folder, target, isExternal) {
    const file = `main.${target === 'cjs' ? 'cjs' : 'mjs'}`;
    const output = { entryFileNames: file, format: target === 'cjs' ? 'cjs' : 'es' };
    await vite.build({
      root: dirname(entry),
      base: './',
      configFile: false,
      logLevel: 'silent',
      build: {
        outDir: folder,
        emptyOutDir: false,
        rollupOptions: { input: entry, output },
        ...(target === 'browser' ? {} : { ssr: entry }),
      },
      ...(target === 'browser' || isExternal ? {} : { ssr: { noExternal: true } }),
    });
    return join(folder, file);
  },

  async webpack(entry, folder, target, isExternal) {
    const isModule = target === 'esm';
    const file = `main.${isModule ? 'mjs' : target === 'cjs' ? 'cjs' : 'js'}`;
    const compiler = webpack({
      mode: 'production',
      entry,
      target: target === 'browser' ? 'web' : 'node20',
      output: { path: folder, filename: file, ...(isModule && { module: true, chunkFormat: 'module' }) },
      experiments: { outputModule: isModule },
      externals: isExternal ? [NATIVE] : [],
      externalsType: isModule ? 'module' : 'commonjs',
    });
    const stats = await new Promise((resolve, reject) => {
      compiler.run((error, stats) => (error ? reject(error) : resolve(stats)));
    });
    await new Promise((resolve) => compiler.close(resolve));
    if (stats.hasErrors()) throw new Error(stats.toString({ preset: 'errors-only' }));
    return join(folder, file);
  },

  async '@vercel/ncc'(entry, folder, target, isExternal) {
    if (target === 'browser') return undefined;
    const isModule = target === 'esm';
    const { code, assets } = await ncc(entry, {
      cache: false,
      quiet: true,
      esm: isModule,
      externals: isExternal ? ['steadlock'] : [],
    });
    const file = join(folder, isModule ? 'main.mjs' : 'main.cjs');
    writeFileSync(file, code);
    for (const [name, { source }] of Object.entries(assets)) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), source);
    }
    return file;
  },
};

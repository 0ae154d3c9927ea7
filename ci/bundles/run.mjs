// Bundles a program with each bundler for each target, runs each bundle in an empty folder, and compares the results
// with the tables in docs/platforms.md.
//
//   node run.mjs           fails if the tables differ from the results
//   node run.mjs --write   writes the tables

import { execFile, spawn } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { extname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { install, ROOT, serve } from '../support/javascript.mjs';
import { BUNDLERS } from './bundlers.mjs';
import { native, webInBrowser, webOnNode } from './programs.mjs';

const HERE = fileURLToPath(new URL('.', import.meta.url));
const PAGE = join(ROOT, 'docs', 'platforms.md');
const INLINED = "import 'steadlock-web/inlined';";
const DEADLINE_MS = 60_000;

const run = promisify(execFile);
const { devDependencies: versions } = JSON.parse(readFileSync(join(HERE, 'package.json'), 'utf8'));

/** The columns of each table. */
const COLUMNS = {
  web: ['Node, ES module', 'Node, CommonJS', 'page', 'worker of a page'],
  native: ['external, ES module', 'external, CommonJS', 'bundled, ES module', 'bundled, CommonJS'],
};

const project = mkdtempSync(join(tmpdir(), 'steadlock-bundles-'));
let programs = 0;

/** Measures the rows of both tables. */
async function measure() {
  install(join(project, 'node_modules'), 'web', 'node');
  const names = Object.keys(BUNDLERS);
  const web = new Map(names.map((name) => [name, {}]));
  const own = new Map(names.map((name) => [name, {}]));
  for (const name of names) {
    for (const [format, column] of [
      ['esm', COLUMNS.web[0]],
      ['cjs', COLUMNS.web[1]],
    ]) {
      web.get(name)[column] = await firstThatWorks(name, format, webOnNode);
    }
    own.get(name)[COLUMNS.native[0]] = await resultOfNative(name, 'esm', true);
    own.get(name)[COLUMNS.native[1]] = await resultOfNative(name, 'cjs', true);
    own.get(name)[COLUMNS.native[2]] = await resultOfNative(name, 'esm', false);
    own.get(name)[COLUMNS.native[3]] = await resultOfNative(name, 'cjs', false);
  }
  await inBrowser(web);
  return { web, native: own };
}

/** Bundles a program. Returns the file to run, or nothing if the bundler does not support the target. */
async function bundle(name, format, text, isExternal = false) {
  programs += 1;
  const [source, target] = [join(project, `from-${programs}`), join(project, `to-${programs}`)];
  for (const folder of [source, target]) mkdirSync(folder);
  // Some bundlers make CommonJS only of an entry that is not an `.mjs` file.
  const entry = join(source, format === 'cjs' ? 'main.js' : 'main.mjs');
  writeFileSync(entry, text);
  return BUNDLERS[name](entry, target, format, isExternal);
}

/** Runs a bundle for Node in an empty folder. With `isExternal` the packages are installed there. Returns its output. */
async function outputOf(file, isExternal = false) {
  const folder = mkdtempSync(join(tmpdir(), 'steadlock-bundle-'));
  try {
    cpSync(join(file, '..'), folder, { recursive: true });
    if (isExternal) install(join(folder, 'node_modules'), 'web', 'node');
    const env = { PATH: process.env.PATH, STEADLOCK_URL: server.url, STEADLOCK_REST: server.rest };
    const main = join(folder, file.split('/').at(-1));
    const { stdout } = await run(process.execPath, [main], { cwd: folder, env, timeout: DEADLINE_MS });
    return stdout.trim();
  } finally {
    rmSync(folder, { recursive: true });
  }
}

const works = (text) => /^token [1-9]/.test(text);

async function firstThatWorks(name, format, program) {
  let last;
  for (const [first, cell] of [
    ['', 'works'],
    [INLINED, 'with `steadlock-web/inlined`'],
  ]) {
    const file = await bundle(name, format, program(first));
    if (file === undefined) return '–';
    last = await outputOf(file);
    if (works(last)) return cell;
    // If the bundle needs `steadlock-web/inlined`, the error must say so.
    if (!last.startsWith('Misconfigured: ') || !last.includes('steadlock-web/inlined')) break;
  }
  throw new Error(`${name}, ${format}: ${last}`);
}

async function resultOfNative(name, format, isExternal) {
  try {
    const output = await outputOf(await bundle(name, format, native(), isExternal), isExternal);
    if (works(output)) return 'works';
    if (isExternal) throw new Error(output);
    return 'no';
  } catch (error) {
    if (isExternal) throw new Error(`steadlock by ${name}, ${format}: ${error.message}`);
    return 'no';
  }
}

/** Runs all bundles for pages in one browser, and enters the results into the table. */
async function inBrowser(web) {
  const [page, worker] = COLUMNS.web.slice(2);
  const cells = new Map();
  const frames = [];
  for (const name of Object.keys(BUNDLERS)) {
    for (const column of [page, worker]) {
      for (const first of ['', INLINED]) {
        const cell = `${name} ${column} ${first === '' ? 'plain' : 'inlined'}`;
        const file = await bundle(name, 'browser', webInBrowser(first, server.rest, cell));
        if (file === undefined) continue;
        const src = `/${file.slice(project.length + 1)}`;
        // A bundle that is not a module is loaded as a classic script.
        const type = file.endsWith('.mjs') ? 'module' : 'classic';
        const worker = `new Worker(${JSON.stringify(src)}, { type: '${type}' });`.replaceAll('"', '&quot;');
        const script =
          column === page
            ? `<script type=${type === 'module' ? type : 'text/javascript'} src=${src}>`
            : `<script>${worker}`;
        frames.push(`<iframe srcdoc="${script}</script>"></iframe>`);
        cells.set(cell, undefined);
      }
    }
  }
  await collectResults(frames.join('\n'), cells);
  for (const name of Object.keys(BUNDLERS)) {
    for (const column of [page, worker]) {
      const [plain, inlined] = ['plain', 'inlined'].map((variant) => cells.get(`${name} ${column} ${variant}`));
      let cell = '–';
      if (plain !== undefined && works(plain)) cell = 'works';
      else if (inlined !== undefined && works(inlined) && plain.startsWith('Misconfigured: '))
        cell = 'with `steadlock-web/inlined`';
      else if (plain !== undefined) throw new Error(`${name}, ${column}: ${plain} / ${inlined}`);
      web.get(name)[column] = cell;
    }
  }
}

const TYPES = { '.js': 'text/javascript', '.mjs': 'text/javascript', '.wasm': 'application/wasm' };

/** Shows a page in Chromium until it has reported the result of each cell. */
async function collectResults(body, cells) {
  let isDone;
  const done = new Promise((resolve) => {
    isDone = resolve;
  });
  const site = createServer((request, response) => {
    const url = new URL(request.url, 'http://site');
    if (request.method === 'POST') {
      let text = '';
      request.setEncoding('utf8').on('data', (part) => {
        text += part;
      });
      request.on('end', () => {
        cells.set(url.searchParams.get('cell'), text);
        response.end();
        if ([...cells.values()].every((result) => result !== undefined)) isDone();
      });
      return;
    }
    try {
      const file = url.pathname === '/' ? undefined : join(project, url.pathname);
      const bytes = file === undefined ? body : readFileSync(file);
      response.setHeader('content-type', file === undefined ? 'text/html' : (TYPES[extname(file)] ?? 'text/plain'));
      response.end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((resolve) => site.listen(0, '127.0.0.1', resolve));
  const profile = join(project, 'profile');
  const options = ['--headless=new', '--no-sandbox', '--disable-gpu', `--user-data-dir=${profile}`];
  const browser = spawn(chromium(), [...options, `http://127.0.0.1:${site.address().port}/`], { stdio: 'ignore' });
  const ended = new Promise((resolve) => browser.once('close', resolve));
  const timer = setTimeout(isDone, DEADLINE_MS);
  await done;
  clearTimeout(timer);
  browser.kill();
  await ended;
  site.closeAllConnections();
  site.close();
  const missing = [...cells].filter(([, result]) => result === undefined).map(([cell]) => cell);
  if (missing.length > 0) throw new Error(`the browser reported no result of ${missing.join(', ')}`);
}

function chromium() {
  if (process.env.CHROMIUM) return process.env.CHROMIUM;
  const names = ['chromium', 'chromium-browser', 'google-chrome'];
  const found = names.find((name) =>
    (process.env.PATH ?? '').split(':').some((folder) => existsSync(join(folder, name))),
  );
  return found ?? 'chromium';
}

function table(columns, rows) {
  const line = (cells) => `| ${cells.join(' | ')} |`;
  const named = (name) => `\`${name}\` ${versions[name]}`;
  const all = [['', ...columns], Array(columns.length + 1).fill('---')];
  for (const [name, cells] of rows) all.push([named(name), ...columns.map((column) => cells[column])]);
  return all.map(line).join('\n');
}

function withTables(tables) {
  let text = readFileSync(PAGE, 'utf8');
  for (const [name, rows] of Object.entries(tables)) {
    const markers = new RegExp(`(<!-- bundles:${name} -->\n)[^]*?(<!-- /bundles:${name} -->)`);
    if (!markers.test(text)) throw new Error(`docs/platforms.md has no place for the table ${name}`);
    text = text.replace(markers, (_, begin, end) => `${begin}${table(COLUMNS[name], rows)}\n${end}`);
  }
  return text;
}

function compare(tables) {
  if (withTables(tables) === readFileSync(PAGE, 'utf8')) return;
  console.error('the tables of docs/platforms.md are not what was measured; run `./ci/just test-bundles --write`:');
  for (const [name, rows] of Object.entries(tables)) console.error(table(COLUMNS[name], rows));
  process.exitCode = 1;
}

// The main program is last, as it uses everything above.
const server = await serve();
try {
  const tables = await measure();
  if (process.argv.includes('--write')) writeFileSync(PAGE, withTables(tables));
  else compare(tables);
} finally {
  server.process.kill();
  rmSync(project, { recursive: true });
}

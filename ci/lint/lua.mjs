// Checks the Lua files that a server runs: syntax of Lua 5.1, no globals except those that Redis offers, no unused
// local, and a head comment that says what the script promises. A script is checked together with the parts that its
// head comment names.
//
//   node ci/lint/lua.mjs FILE…

import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import luaparse from 'luaparse';

const MAX_WIDTH = 120;
const HEAD = [/^-- KEYS\[1\]/m, /^-- Reply /m, /^-- Invariant: /m];
// The environment of a script in Redis 7 and in the embedded store.
const GLOBALS = new Set([
  ...['KEYS', 'ARGV', 'redis', 'cjson', 'cmsgpack', 'bit', 'struct', 'math', 'string', 'table'],
  ...['assert', 'error', 'ipairs', 'next', 'pairs', 'pcall', 'rawequal', 'rawget', 'select', 'tonumber'],
  ...['tostring', 'type', 'unpack', 'xpcall'],
]);

let failed = 0;
const report = (file, line, message) => {
  failed += 1;
  console.error(`${file}:${line}: ${message}`);
};

for (const file of process.argv.slice(2)) {
  const text = readFileSync(file, 'utf8');
  for (const part of HEAD) {
    if (!part.test(text)) report(file, 1, `the head comment has no line that matches ${part}`);
  }
  const uses = text.match(/^-- Uses (.*)$/m)?.[1].split(', ') ?? [];
  for (const part of uses) checkForm(join(dirname(file), part));
  checkForm(file);
  try {
    checkNames(file, text, uses.map((part) => readFileSync(join(dirname(file), part), 'utf8')).join(''));
  } catch (error) {
    report(file, error.line ?? 1, error.message);
  }
}
console.log(`${process.argv.length - 2} Lua files checked, ${failed} errors`);
process.exitCode = failed === 0 ? 0 : 1;

/** Looks at the lines of a file. */
function checkForm(file) {
  const lines = readFileSync(file, 'utf8').split('\n');
  lines.forEach((line, index) => {
    if (line.length > MAX_WIDTH) report(file, index + 1, `longer than ${MAX_WIDTH} characters`);
    if (/\s$/.test(line) || line.includes('\t')) report(file, index + 1, 'a tab or trailing space');
  });
}

/** Parses a script with its parts before it, and checks each name that the script reads or writes. */
function checkNames(file, text, parts) {
  const locals = new Set();
  const tree = luaparse.parse(parts + text, {
    luaVersion: '5.1',
    locations: true,
    scope: true,
    onLocalDeclaration: (name) => locals.add(name),
  });
  for (const name of tree.globals) {
    if (!GLOBALS.has(name.name)) report(file, lineOf(text, name.name), `${name.name} is not a global of a script`);
  }
  const code = (parts + text).replace(/--.*$/gm, '');
  for (const name of locals) {
    const uses = code.match(new RegExp(`\\b${name}\\b`, 'g')) ?? [];
    // A script need not use everything that a part offers.
    const isOffered = new RegExp(`^local (function )?${name}\\b`, 'm').test(parts);
    if (uses.length < 2 && name !== '_' && !isOffered)
      report(file, lineOf(text, name), `the local ${name} is never read`);
  }
}

function lineOf(text, name) {
  const index = text.search(new RegExp(`\\b${name}\\b`));
  return text.slice(0, Math.max(index, 0)).split('\n').length;
}

// Tests of `NumberTable`: it is compared with a Map that gets the same calls.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { describe, it } from 'node:test';

type Tables = typeof import('../dist/number-table');
const { NumberTable } = createRequire(require.resolve('steadlock'))('./number-table.js') as Tables;

describe('a number table', () => {
  it('works like a Map for ascending ids, even if some stay long', () => {
    const table = new NumberTable<string>();
    const map = new Map<number, string>();
    let random = 1;
    for (let id = 0; id < 20_000; id += 1) {
      table.set(id, `v${id}`);
      map.set(id, `v${id}`);
      random = (random * 48_271) % 2_147_483_647;
      // Four of five rounds delete one of the last hundred ids; the other ids stay until the end.
      const old = id - (random % 100);
      if (random % 5 !== 0) assert.equal(table.delete(old), map.delete(old), `${old}`);
      assert.equal(table.get(old), map.get(old), `${old}`);
    }
    assert.ok(map.size > 1_000);
    for (const [id, value] of map) assert.equal(table.get(id), value);
    for (const id of map.keys()) assert.ok(table.delete(id));
    for (const id of map.keys()) assert.equal(table.get(id), undefined);
  });

  it('accepts ids above 2^32', () => {
    const table = new NumberTable<string>();
    const ids = [2 ** 52, 2 ** 52 + 1, 2 ** 52 + 256, 2 ** 33];
    for (const id of ids) table.set(id, `v${id}`);
    for (const id of ids) assert.equal(table.get(id), `v${id}`);
  });

  it('is empty after clear', () => {
    const table = new NumberTable<string>();
    for (let id = 0; id < 1_000; id += 1) table.set(id, 'v');
    table.clear();
    for (let id = 0; id < 1_000; id += 1) assert.equal(table.get(id), undefined);
    assert.equal(table.delete(1), false);
  });
});

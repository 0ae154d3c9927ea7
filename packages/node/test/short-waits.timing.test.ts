// Tests of waits that are shorter than an answer of the server may take.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { run } from './run.js';
import { RedisServer } from './server.js';

const PROCESSES = 4;

/** Makes calls with short waits for two seconds. Prints how many were granted and how many were not. */
const PROGRAM = `
  import { connect } from 'steadlock';

  const client = await connect();
  const counts = { granted: 0, busy: 0 };
  const end = performance.now() + 2_000;
  for (let waitMs = 1; performance.now() < end; waitMs = (waitMs % 15) + 1) {
    const lease = await client.lock('door').tryLock({ waitMs });
    counts[lease === null ? 'busy' : 'granted'] += 1;
    await lease?.release();
  }
  await client.close();
  console.log(JSON.stringify(counts));
`;

it('are granted or not, and never fail while the server answers', async () => {
  await using server = await RedisServer.start();
  const runs = Array.from({ length: PROCESSES }, () => run(PROGRAM, server.url));
  const counts = { granted: 0, busy: 0 };
  for (const ended of await Promise.all(runs)) {
    assert.equal(ended.code, 0, ended.errors);
    const { granted, busy } = JSON.parse(ended.output) as typeof counts;
    counts.granted += granted;
    counts.busy += busy;
  }
  assert.ok(counts.granted > 0 && counts.busy > 0, JSON.stringify(counts));
});

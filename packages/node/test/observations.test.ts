// Tests of a client's events: losses, and servers that fail and come back.

import assert from 'node:assert/strict';
import { it } from 'node:test';
import { connect, type Observation } from 'steadlock';
import { run } from './run.js';
import { eventually, RedisServer } from './server.js';

const PASSWORD = 'sesame-open-and-more';

it('report a loss, a disconnect and a reconnect, without secrets', async () => {
  await using server = await RedisServer.start('--requirepass', PASSWORD);
  await using client = await connect(server.url.replace('//', `//:${PASSWORD}@`), { leaseMs: 6_000 });
  const events = new Map<string, Observation>();
  for (const event of ['lost', 'disconnected', 'connected'] as const) {
    client.events.on(event, (observation) => events.set(event, observation));
  }
  const lease = await client.lock('door').lock();
  await server.kill();
  await server.restart();
  await eventually(20_000, () => events.size === 3);
  assert.equal(await lease.release(), 'expired');

  const { level, message, lock, lease: id, reason, heldMs, server: where } = events.get('lost') as Observation;
  assert.deepEqual([level, lock, reason, typeof heldMs], ['error', 'door', 'removed', 'number']);
  assert.equal(typeof id, 'number');
  assert.equal(where, server.url.replace('redis://', ''));
  assert.match(message, /^lock "door" is lost after .*: 127\.0\.0\.1:\d+ has no record of it any more/);
  assert.equal(events.get('disconnected')?.level, 'warn');
  assert.equal(events.get('connected')?.level, 'info');
  assert.ok(!JSON.stringify([...events]).includes('sesame'));
});

it('do not keep a process alive', async () => {
  for (const listen of ["client.events.on('lost', () => {});", '']) {
    const ended = await run(
      `import { connect } from 'steadlock';
       const client = await connect('memory://');
       ${listen}
       await client.lock('door').lock();
       console.log('held');`,
      'memory://',
    );
    assert.deepEqual([ended.code, ended.output], [0, 'held\n'], ended.errors);
  }
});

it('lose no answers when a listener throws', async () => {
  await using server = await RedisServer.start();
  const ended = await run(
    `import { connect } from 'steadlock';
     process.on('uncaughtException', (error) => console.log(error.message));
     const client = await connect(undefined, { leaseMs: 300 });
     client.events.on('lost', () => { throw new Error('a defect of the program'); });
     const lease = await client.lock('door').lock();
     const alive = setInterval(() => {}, 1_000);
     await client.forceRelease(client.lock('door'));
     await new Promise((resolve) => lease.signal.addEventListener('abort', resolve));
     console.log(await lease.release());
     await client.close();
     clearInterval(alive);`,
    server.url,
  );
  assert.deepEqual(ended.output.trim().split('\n').sort(), ['a defect of the program', 'expired'], ended.errors);
});

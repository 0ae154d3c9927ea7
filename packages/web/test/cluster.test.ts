// Tests of a cluster with ioredis: locks on every shard, and notifications of releases between both packages.

import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Cluster } from 'ioredis';
import { connect } from 'steadlock-web';
import { ioredis } from 'steadlock-web/ioredis';
import { ROOT } from './package.js';
import { eventually, freePort, RedisServer } from './server.js';

type Native = typeof import('steadlock');
const native = (await import(`${ROOT}packages/node/dist/index.js`)) as Native;

const NODES = 3;
const SLOTS = 16_384;
/** The polls are further apart than a test lasts, so only a message wakes a waiter. */
const NO_POLL = { retryIntervalMs: [60_000, 60_000] as const };

describe('a cluster behind ioredis', () => {
  let nodes: RedisServer[];
  let redis: Cluster;
  let listener: Cluster;

  before(async () => {
    nodes = await Promise.all(Array.from({ length: NODES }, startNode));
    for (const [at, node] of nodes.entries()) {
      const [from, to] = [(SLOTS * at) / NODES, (SLOTS * (at + 1)) / NODES].map(Math.floor) as [number, number];
      await node.store.call('CLUSTER', 'ADDSLOTSRANGE', from, to - 1);
      if (at > 0) await meet(node, nodes[0] as RedisServer);
    }
    for (const node of nodes) {
      await eventually(30_000, async () => {
        const info = (await node.store.call('CLUSTER', 'INFO')) as string;
        return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${NODES}`);
      });
    }
    const { hostname: host, port } = new URL(nodes[0]?.url as string);
    const connection = () => new Cluster([{ host, port: Number(port) }]);
    [redis, listener] = [connection(), connection()];
  });

  after(async () => {
    redis?.disconnect();
    listener?.disconnect();
    for (const node of nodes ?? []) await node[Symbol.asyncDispose]();
  });

  it('has locks on every shard, each with its fencing token', async () => {
    const client = await connect(ioredis(redis, listener));
    for (let number = 0; number < 30; number += 1) {
      const lease = await client.lock(`shard-${number}`, { leaseMs: 10_000 }).lock();
      assert.equal(typeof lease.token, 'number');
      assert.equal(await client.lock(`shard-${number}`).tryLock(), null);
      if (number % 2 === 0) await lease.release();
    }
    for (const node of nodes) assert.ok((await node.keys()).length > 0, 'a shard has no key');
    await client.close();
  });

  it('and the native client notify each other of releases, without a poll', async () => {
    const viaIoredis = await connect(ioredis(redis, listener), NO_POLL);
    const viaNative = await native.connect(`redis+cluster://${new URL(nodes[0]?.url as string).host}`, NO_POLL);
    for (const kind of ['lock', 'fairLock'] as const) {
      for (const [holder, waiter] of [
        [viaIoredis, viaNative],
        [viaNative, viaIoredis],
      ] as const) {
        for (let number = 0; number < 6; number += 1) {
          const name = `${kind}-${number}-${holder === viaNative}`;
          const held = await holder[kind](name, { leaseMs: 30_000 }).lock();
          const waiting = waiter[kind](name, { leaseMs: 30_000, waitMs: 20_000 }).lock();
          await eventually(5_000, () => isListenedTo(nodes, name));
          await held.release();
          const next = await waiting;
          assert.ok((next.token as number) > (held.token as number));
          await next.release();
        }
      }
    }
    await viaIoredis.close();
    await viaNative.close();
  });
});

async function startNode(): Promise<RedisServer> {
  const bus = `${await freePort()}`;
  return RedisServer.start('--cluster-enabled', 'yes', '--cluster-port', bus);
}

async function meet(node: RedisServer, other: RedisServer): Promise<void> {
  const { hostname, port } = new URL(other.url);
  const [, bus] = (await other.store.call('CONFIG', 'GET', 'cluster-port')) as [string, string];
  await node.store.call('CLUSTER', 'MEET', hostname, port, bus);
}

/** Returns whether a channel of this lock has a subscriber, on any node. */
async function isListenedTo(nodes: RedisServer[], name: string): Promise<boolean> {
  const replies = nodes.flatMap(({ store }) =>
    ['CHANNELS', 'SHARDCHANNELS'].map((what) => store.call('PUBSUB', what, `*${name}*`) as Promise<string[]>),
  );
  return (await Promise.all(replies)).flat().length > 0;
}

// The scenarios that all languages share: on redis-server through ioredis, with messages and with polls, and on
// `steadlock serve` through its REST API. STEADLOCK_BEHAVIOUR=redis,poll,http chooses transports.

import assert from 'node:assert/strict';
import { Redis } from 'ioredis';
import { connect, type RedisClient, redlock } from 'steadlock-web';
import { ioredis } from 'steadlock-web/ioredis';
import { upstash } from 'steadlock-web/upstash';
import { play, type Transport } from './behaviour.js';
import { EmbeddedServer, RedisServer } from './server.js';

// RedLock uses all three servers; the other kinds use the first.
const THREE = [1, 2, 3];

interface Started {
  /** The client for each server. */
  readonly clients: RedisClient[];
  readonly stop: () => Promise<unknown>;
}

function transport(start: () => Promise<Started>): Transport {
  return {
    async start() {
      const { clients, stop } = await start();
      return {
        count: clients.length,
        open(isRedlock, { leaseMs }) {
          // The scenarios assume that leases are renewed by default.
          const options = { leaseMs, renew: true };
          return isRedlock ? redlock(clients, options) : connect(clients[0] as RedisClient, options);
        },
        stop: async () => void (await stop()),
      };
    },
  };
}

async function redisServers(listens: boolean): Promise<Started> {
  const servers = await Promise.all(THREE.map(() => RedisServer.start()));
  const connections: Redis[] = [];
  const connection = (url: string) => {
    const redis = new Redis(url);
    connections.push(redis);
    return redis;
  };
  return {
    clients: servers.map(({ url }) => ioredis(connection(url), listens ? connection(url) : undefined)),
    async stop() {
      for (const one of connections) one.disconnect();
      await Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
    },
  };
}

const ALL: Record<string, Transport> = {
  redis: transport(() => redisServers(true)),
  poll: transport(() => redisServers(false)),
  http: transport(async () => {
    const servers = await Promise.all(THREE.map(() => EmbeddedServer.start('--http', '0')));
    return {
      clients: servers.map(({ http }) => upstash({ url: http, subscribe: true })),
      stop: () => Promise.all(servers.map((server) => server[Symbol.asyncDispose]())),
    };
  }),
};

for (const name of (process.env.STEADLOCK_BEHAVIOUR ?? 'redis,poll,http').split(',')) {
  const chosen = ALL[name] ?? assert.fail(`STEADLOCK_BEHAVIOUR has ${name}, which is not redis, poll or http`);
  play({ [name]: chosen });
}

// The scenarios that all languages share, on each transport. STEADLOCK_BEHAVIOUR=memory,serve,redis chooses transports.
// STEADLOCK_BEHAVIOUR_URLS names running servers, on which each kind runs one scenario.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { connect, redlock } from 'steadlock';
import { play, type Transport } from './behaviour.js';
import { EmbeddedServer, RedisServer } from './server.js';

// RedLock uses all three servers; the other kinds use the first.
const THREE = [1, 2, 3];

function transport(start: () => Promise<{ urls: string[]; stop: () => Promise<unknown> }>): Transport {
  return {
    async start() {
      const { urls, stop } = await start();
      return {
        count: urls.length,
        open(isRedlock, { leaseMs }) {
          const options = { leaseMs, tlsCaFile: process.env.STEADLOCK_BEHAVIOUR_CA };
          return isRedlock ? redlock(urls, options) : connect(urls[0], options);
        },
        stop: async () => void (await stop()),
      };
    },
  };
}

async function started(Server: { start(): Promise<RedisServer | EmbeddedServer> }) {
  const servers = await Promise.all(THREE.map(() => Server.start()));
  const stop = () => Promise.all(servers.map((server) => server[Symbol.asyncDispose]()));
  return { urls: servers.map(({ url }) => url), stop };
}

const ALL: Record<string, Transport> = {
  memory: transport(async () => ({ urls: THREE.map(() => `memory://${randomUUID()}`), stop: async () => {} })),
  serve: transport(() => started(EmbeddedServer)),
  redis: transport(() => started(RedisServer)),
};

// A URL contains no space, so the list can be split at spaces.
const urls = process.env.STEADLOCK_BEHAVIOUR_URLS?.split(' ');
if (urls) {
  play({ urls: transport(async () => ({ urls, stop: async () => {} })) }, { onlyFirst: true });
} else {
  for (const name of (process.env.STEADLOCK_BEHAVIOUR ?? 'memory,serve,redis').split(',')) {
    const chosen = ALL[name] ?? assert.fail(`STEADLOCK_BEHAVIOUR has ${name}, which is not memory, serve or redis`);
    play({ [name]: chosen });
  }
}

// bun bun.mjs URL UNREACHABLE

import { createClient } from 'redis';
import * as steadlock from 'steadlock-web';
import { nodeRedis } from 'steadlock-web/node-redis';
import { scenario } from './scenario.mjs';

const [url, unreachable] = process.argv.slice(2);
const open = (url) => createClient({ url, socket: { reconnectStrategy: false } }).on('error', () => {});
const [client, listener] = await Promise.all([open(url).connect(), open(url).connect()]);
// This client keeps trying to connect and never succeeds.
const down = createClient({ url: unreachable }).on('error', () => {});
down.connect().catch(() => {});
console.log(JSON.stringify(await scenario(steadlock, nodeRedis(client, listener), nodeRedis(down))));
down.destroy();
client.destroy();
listener.destroy();

// node node.mjs URL UNREACHABLE

import { Redis } from 'ioredis';
import * as steadlock from 'steadlock-web';
import { ioredis } from 'steadlock-web/ioredis';
import { scenario } from './scenario.mjs';

const [url, unreachable] = process.argv.slice(2);
const open = (url) => new Redis(url, { maxRetriesPerRequest: 0 }).on('error', () => {});
const connections = [open(url), open(url), open(unreachable)];
const [client, listener, down] = connections;
console.log(JSON.stringify(await scenario(steadlock, ioredis(client, listener), ioredis(down))));
for (const connection of connections) connection.disconnect();

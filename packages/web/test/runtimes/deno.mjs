// deno run --allow-net --allow-read deno.mjs URL UNREACHABLE

import { deno } from '../../dist/adapters/deno.js';
import * as steadlock from '../../dist/index.js';
import { scenario } from './scenario.mjs';

const [url, unreachable] = Deno.args;
const [redis, down] = [deno(url), deno(unreachable)];
console.log(JSON.stringify(await scenario(steadlock, redis, down)));
redis.close();
down.close();

// The contender in Node.

import { createRequire } from 'node:module';
import { contend, url } from './javascript.mjs';

const require = createRequire(new URL('../../../examples/seckill/node/', import.meta.url));
const { connect } = require('steadlock');

await contend((options) => connect(url, options));

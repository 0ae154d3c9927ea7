// Tests of releases after `close()`.

import { randomUUID } from 'node:crypto';
import { connect } from 'steadlock';
import { closing } from './closing.js';

const url = `memory://${randomUUID()}`;
closing(() => connect(url));

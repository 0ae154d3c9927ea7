// What the tests of both packages for JavaScript use of this one.

import { join } from 'node:path';

export { Redis } from 'ioredis';
export * from 'steadlock';

/** The project's folder. */
export const ROOT = join(__dirname, '..', '..', '..', '..');

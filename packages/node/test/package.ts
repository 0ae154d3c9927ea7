// The exports of this package that the shared tests of both JavaScript packages use.

import { join } from 'node:path';

export { Redis } from 'ioredis';
export * from 'steadlock';

/** The root folder of the project. */
export const ROOT = join(__dirname, '..', '..', '..', '..');

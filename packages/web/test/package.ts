// The exports of this package that the shared tests of both JavaScript packages use.

import { fileURLToPath } from 'node:url';

export { Redis } from 'ioredis';
export * from 'steadlock-web';

/** The root folder of the project. */
export const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));

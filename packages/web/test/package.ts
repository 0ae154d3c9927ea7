// What the tests of both packages for JavaScript use of this one.

import { fileURLToPath } from 'node:url';

export { Redis } from 'ioredis';
export * from 'steadlock-web';

/** The project's folder. */
export const ROOT = fileURLToPath(new URL('../../../..', import.meta.url));

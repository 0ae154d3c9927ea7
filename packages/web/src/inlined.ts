/**
 * The core inside a script, for bundles without further files: `import 'steadlock-web/inlined'`, before the first
 * `connect`. It makes a bundle about 265 kB larger, and needs a host that compiles WebAssembly at run time.
 */

import core from './inlined-core.js';
import { unpack } from './unpack.js';
import { useInlined } from './wasm.js';

useInlined(() => unpack(core), true);

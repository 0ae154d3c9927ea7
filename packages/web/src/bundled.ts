/// <reference lib="esnext.disposable" preserve="true" />

// The entry for hosts where a bundler can leave the core's file behind. Only if the file is missing is the core loaded
// from a script. Not for browsers: in a bundle of one file, every page would load that script.

import { unpack } from './unpack.js';
import { useInlined } from './wasm.js';

useInlined(async () => unpack((await import('./inlined-core.js')).default), false);

export * from './index.js';

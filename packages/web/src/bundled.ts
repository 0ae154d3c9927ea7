/// <reference lib="esnext.disposable" preserve="true" />

// The same for where a bundler may leave the core's file behind: then it comes from a script, which is loaded only then.
// Not for browsers: a bundle of one file would make every page load it.

import { unpack } from './unpack.js';
import { useInlined } from './wasm.js';

useInlined(async () => unpack((await import('./inlined-core.js')).default), false);

export * from './index.js';

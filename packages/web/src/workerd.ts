/// <reference lib="esnext.disposable" preserve="true" />

// The same for a host that compiles no WebAssembly at run time, and wants it to be imported.

import core from './steadlock.wasm';
import { useCore } from './wasm.js';

useCore(core);

export * from './index.js';

/// <reference lib="esnext.disposable" preserve="true" />

// The entry for hosts that do not compile WebAssembly at run time and require its import.

import core from './steadlock.wasm';
import { useCore } from './wasm.js';

useCore(core);

export * from './index.js';

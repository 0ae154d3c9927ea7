/** The core, gzipped, in Base64: written by `build-wasm.mjs`. */
declare const core: string;
export default core;

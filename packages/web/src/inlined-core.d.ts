/** The core, gzipped and in Base64. `build-wasm.mjs` writes this module. */
declare const core: string;
export default core;

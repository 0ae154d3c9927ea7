/// <reference lib="esnext.disposable" preserve="true" />

// The module for `import`. It exports the CommonJS module, so that there is one set of classes.

export * from './index.js';

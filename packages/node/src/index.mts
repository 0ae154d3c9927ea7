/// <reference lib="esnext.disposable" preserve="true" />

// The same module for `import`: one set of classes, however it is loaded.

export * from './index.js';

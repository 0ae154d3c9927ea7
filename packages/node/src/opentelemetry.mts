/// <reference lib="esnext.disposable" preserve="true" />

// The module for `import`. It exports the CommonJS module.

export * from './opentelemetry.js';

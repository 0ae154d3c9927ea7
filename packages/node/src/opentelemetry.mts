/// <reference lib="esnext.disposable" preserve="true" />

// The same module for `import`.

export * from './opentelemetry.js';

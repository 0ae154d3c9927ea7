// Helpers for tests of memory: they collect garbage, and count the native clients that are left.

import { readdirSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';

setFlagsFromString('--expose-gc');

/** Collects all garbage. */
export const collectGarbage = runInNewContext('gc') as () => void;

/** Every native client that was opened since this file was loaded. */
const opened: WeakRef<object>[] = [];

const { native } = createRequire(__filename)(join(__dirname, '..', '..', 'dist', 'native.js')) as {
  native: { open(...given: unknown[]): object };
};
const { open } = native;
native.open = (...given) => {
  const client = open(...given);
  opened.push(new WeakRef(client));
  return client;
};

/** Returns how many native clients were opened, and how many of them are left after a collection. */
export function nativeClients(): { opened: number; left: number } {
  collectGarbage();
  return { opened: opened.length, left: opened.filter((client) => client.deref() !== undefined).length };
}

/** Returns the number of threads of this process; every native client has one. */
export function threads(): number {
  return readdirSync('/proc/self/task').length;
}

/** Returns the resident memory of this process in bytes, after a collection of garbage. */
export function residentMemory(): number {
  collectGarbage();
  return process.memoryUsage.rss();
}

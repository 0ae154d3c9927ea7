// Loads the core, once.

import * as glue from './glue.js';
import { globals } from './runtime.js';

/** The core as WebAssembly, as a host gives it. */
export type Core = WebAssembly.Module | BufferSource | Response | URL | string;

let source: Core | undefined;
let inlined: (() => Promise<BufferSource>) | undefined;
let isInlinedFirst = false;
let loading: Promise<void> | undefined;
let isLoaded = false;

/** @internal Its file could not be asked for now; the next call may succeed. */
export class Unreachable extends Error {}

/**
 * Says where the core is, if it is not beside this package's files: its WebAssembly module, which some hosts want to be
 * imported, or its bytes, or its address (relative to the page). To be called before the first `connect`; later calls
 * change nothing.
 */
export function useCore(core: Core): void {
  source = core;
}

/** @internal Whether the program says where the core is. */
export function isNamed(): boolean {
  return source !== undefined;
}

/** @internal Says which script has the core in it, for where its file is not beside this one; `isFirst` asks for no file. */
export function useInlined(bytes: () => Promise<BufferSource>, isFirst: boolean): void {
  inlined = bytes;
  isInlinedFirst ||= isFirst;
}

/** @internal The core, once it is loaded. */
export function core(): typeof glue | undefined {
  return isLoaded ? glue : undefined;
}

/** @internal Loads the core, unless it is loaded. A failure is that of this call: the next one tries again. */
export async function load(): Promise<void> {
  if (isLoaded) return;
  loading ??= find().finally(() => {
    loading = undefined;
  });
  await loading;
}

async function find(): Promise<void> {
  if (source !== undefined) return instantiate(source);
  if (isInlinedFirst && inlined !== undefined) return instantiate(await inlined());
  try {
    await instantiate(new URL('./steadlock.wasm', import.meta.url));
  } catch (error) {
    // Bundlers put scripts elsewhere, and not all of them take the file along.
    if (inlined === undefined) throw error;
    await instantiate(await inlined());
  }
}

async function instantiate(from: Core): Promise<void> {
  const fetched =
    typeof from === 'string' || from instanceof URL
      ? await read(new URL(from, globals.location?.href ?? import.meta.url))
      : from;
  const bytes = fetched instanceof Response ? await bodyOf(fetched) : fetched;
  const module = bytes instanceof WebAssembly.Module ? bytes : await WebAssembly.compile(bytes);
  await (glue.default as unknown as (module: WebAssembly.Module) => Promise<unknown>)(module);
  isLoaded = true;
}

async function read(url: URL): Promise<Response | BufferSource> {
  if (url.protocol === 'file:') return readFile(url);
  return fetch(url).catch((error: unknown) => {
    throw new Unreachable(`${url.pathname} could not be fetched`, { cause: error });
  });
}

async function bodyOf(response: Response): Promise<BufferSource> {
  if (response.ok) return response.arrayBuffer();
  // One that a program made itself has no address.
  const answer = `${response.url ? new URL(response.url).pathname : 'it'} was answered with ${response.status}`;
  throw response.status >= 500 || response.status === 429 ? new Unreachable(answer) : new Error(answer);
}

async function readFile(url: URL): Promise<BufferSource> {
  type Files = { readFileSync(url: URL): Uint8Array<ArrayBuffer> };
  // Named so that no bundler for browsers looks for it.
  const name = 'node:fs';
  const files = (globals.process?.getBuiltinModule?.(name) ?? (await import(/* webpackIgnore: true */ name))) as Files;
  return files.readFileSync(url);
}

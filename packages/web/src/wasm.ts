// Loads the core once.

import * as glue from './glue.js';
import { globals } from './runtime.js';

/** The forms in which a host can provide the core. */
export type Core = WebAssembly.Module | BufferSource | Response | URL | string;

let source: Core | undefined;
let inlined: (() => Promise<BufferSource>) | undefined;
let isInlinedFirst = false;
let loading: Promise<void> | undefined;
let isLoaded = false;

/** @internal The core's file could not be requested. A later call can succeed. */
export class CoreUnreachableError extends Error {}

/**
 * Sets the source of the core, if its file is not beside this package's files. The source is the WebAssembly module
 * (some hosts require its import), the bytes of the file, a `Response` with these bytes, or the address of the file. In
 * a page the address can be relative to the page. Call this function before the first `connect`; after the core is
 * loaded it has no effect.
 */
export function useCore(core: Core): void {
  source = core;
}

/** @internal Whether the program has set the source of the core. */
export function hasCustomSource(): boolean {
  return source !== undefined;
}

/**
 * @internal Sets the script that contains the core, for bundles without the core's file. With `isFirst`, the script is
 * used even if the file is there; otherwise only if the file cannot be loaded.
 */
export function useInlined(bytes: () => Promise<BufferSource>, isFirst: boolean): void {
  inlined = bytes;
  isInlinedFirst ||= isFirst;
}

/** @internal Returns the core, if it is loaded. */
export function core(): typeof glue | undefined {
  return isLoaded ? glue : undefined;
}

/** @internal Loads the core, unless it is loaded. If this call fails, the next call tries again. */
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
    // Bundlers move scripts, and not all of them copy the file too.
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
    throw new CoreUnreachableError(`${url.pathname} could not be fetched`, { cause: error });
  });
}

async function bodyOf(response: Response): Promise<BufferSource> {
  if (response.ok) return response.arrayBuffer();
  // A `Response` that the program made has no URL.
  const answer = `${response.url ? new URL(response.url).pathname : 'it'} was answered with ${response.status}`;
  throw response.status >= 500 || response.status === 429 ? new CoreUnreachableError(answer) : new Error(answer);
}

async function readFile(url: URL): Promise<BufferSource> {
  type Files = { readFileSync(url: URL): Uint8Array<ArrayBuffer> };
  // The name is in a variable so that bundlers for browsers do not resolve it.
  const name = 'node:fs';
  const files = (globals.process?.getBuiltinModule?.(name) ?? (await import(/* webpackIgnore: true */ name))) as Files;
  return files.readFileSync(url);
}

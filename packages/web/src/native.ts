// The core as the shared code knows it.

import type { ClientOptions, NativeClient, NativeFailure, Vocabulary } from './binding.js';
import { Broken } from './broken.js';
import { DrivenClient } from './driven-client.js';
import type { RedisClient } from './redis-client.js';
import type { Script } from './servers.js';
import { core } from './wasm.js';

export type {
  ClientOptions,
  NativeClient,
  NativeClientInfo,
  NativeFailure,
  NativeHolder,
  NativeObservation,
  Vocabulary,
} from './binding.js';

/** What opening a client needs beside its options: the program's own clients, by the numbers of their servers. */
export type Opening = readonly RedisClient[];

export const native = {
  /** Opens a client on the program's own ones, which `wake` is called for whenever there is something to drain. */
  open(options: ClientOptions, wake: () => void, clients: Opening): NativeClient | NativeFailure {
    try {
      const opened = loaded().open(options);
      if (!('drain' in opened)) return opened;
      const told = { isLazy: options.lazy ?? false, keyPrefix: options.keyPrefix ?? '' };
      return new DrivenClient(opened, clients, scripts(), told, wake);
    } catch (error) {
      // It trapped: an earlier failure left it in no state to be used.
      return { ...Broken.FAILURE, operation: 'connect', cause: `${error}` };
    }
  },
  vocabulary: (): Vocabulary => loaded().vocabulary(),
  lostError: (name: string, reason: string, isForgotten: boolean, atRelease: boolean): NativeFailure =>
    loaded().lostError(name, reason, isForgotten, atRelease),
  /** A lock's name as messages show it. Before the first client nobody has a lock, and what is named stays unsaid. */
  shown: (name: string): string => core()?.shown(name) ?? '…',
};

let texts: readonly Script[] | undefined;

function scripts(): readonly Script[] {
  texts ??= loaded().scripts() as Script[];
  return texts;
}

function loaded(): NonNullable<ReturnType<typeof core>> {
  const glue = core();
  if (glue === undefined) throw new Error('the core is not loaded yet; await `connect` first');
  return glue;
}

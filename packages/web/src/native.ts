// The core in the form that the shared code uses.

import type { ClientOptions, NativeClient, NativeFailure, Vocabulary } from './binding.js';
import { DrivenClient } from './driven-client.js';
import { FailedCore } from './failed-core.js';
import type { RedisClient } from './redis-client.js';
import type { Script } from './servers.js';
import { core } from './wasm.js';

export type {
  ClientOptions,
  NativeClient,
  NativeClientInfo,
  NativeFailure,
  NativeHolder,
  NativeLock,
  NativeObservation,
  Vocabulary,
} from './binding.js';

/** The program's own Redis clients, which only this core needs to open a client. An index is a server's number. */
export type Opening = readonly RedisClient[];

export const native = {
  /** Opens a client that uses the program's own Redis clients. `wake` is called whenever there are events to drain. */
  open(options: ClientOptions, wake: () => void, clients: Opening): NativeClient | NativeFailure {
    try {
      const opened = loaded().open(options);
      if (!('drain' in opened)) return opened;
      const settings = { isLazy: options.lazy ?? false, keyPrefix: options.keyPrefix ?? '' };
      return new DrivenClient(opened, clients, scripts(), settings, wake);
    } catch (error) {
      // The core trapped, because an earlier failure left it in an unusable state.
      return { ...FailedCore.FAILURE, operation: 'connect', cause: `${error}` };
    }
  },
  vocabulary: (): Vocabulary => loaded().vocabulary(),
  lostError: (name: string, reason: string, isForgotten: boolean, atRelease: boolean): NativeFailure =>
    loaded().lostError(name, reason, isForgotten, atRelease),
  /**
   * Returns a lock's name as messages show it. Before the core is loaded there is no lock, and the name is not shown.
   */
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

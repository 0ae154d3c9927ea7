// The script call that the adapters share.

import { type Reply, ReplyError } from '../redis-client.js';

/** Runs a command. If the server refuses it, rejects with an error that has the server's message. */
export type Run = (...command: string[]) => PromiseLike<unknown>;

/** Runs a script by its SHA-1, and by its text if the server does not know it yet. */
export async function runScript(
  run: Run,
  { script, sha1 }: { script: string; sha1: string },
  keys: readonly string[],
  args: readonly string[],
): Promise<Reply> {
  const rest = [`${keys.length}`, ...keys, ...args];
  try {
    return (await run('EVALSHA', sha1, ...rest)) as Reply;
  } catch (error) {
    if (!(error instanceof Error && error.message.startsWith('NOSCRIPT'))) throw error;
    return (await run('EVAL', script, ...rest)) as Reply;
  }
}

/** Converts a client's error so that Steadlock can tell a refusal of the server from a failure of the connection. */
export function refused(error: unknown, isRefusal: (error: Error) => boolean): unknown {
  return error instanceof Error && isRefusal(error) ? new ReplyError(error.message) : error;
}

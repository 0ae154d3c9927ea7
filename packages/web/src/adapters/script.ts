// How adapters run a script.

import { type Reply, ReplyError } from '../redis-client.js';

/** Runs a command; what the server refuses rejects with an error whose message is the server's own. */
export type Run = (...command: string[]) => PromiseLike<unknown>;

/** Runs a script by its SHA-1, and by its text where the server does not know it yet. */
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

/** The error of a client, as Steadlock tells a server's refusal from what became of a connection. */
export function refused(error: unknown, isRefusal: (error: Error) => boolean): unknown {
  return error instanceof Error && isRefusal(error) ? new ReplyError(error.message) : error;
}

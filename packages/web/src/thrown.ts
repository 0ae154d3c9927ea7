// Errors as a program's client threw them, which may be anything.

/** The server has no room for the connection; this passes when other clients leave. */
const FULL = 'ERR max number of clients';

/** Whether it is what a server refused, and not what became of a connection. */
export function isServers(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError' && !error.message.startsWith(FULL);
}

/** As many causes of causes as a message shows, and as much of all. */
const DEEPEST_CAUSE = 4;
const LONGEST_TEXT = 500;

/** An error as a text. It may be anything. A server's own words come alone, all else with what caused it. */
export function textOf(error: unknown, depth = 0): string {
  try {
    if (!(error instanceof Error)) return `${error}`.slice(0, LONGEST_TEXT);
    const text = `${error.message || error.name}`;
    if (depth === DEEPEST_CAUSE || isServers(error)) return text;
    const { cause, errors = [] } = error as { readonly cause?: unknown; readonly errors?: readonly unknown[] };
    const causes = [...errors, cause ?? ''].map((one) => textOf(one, depth + 1)).filter((one) => !text.includes(one));
    // Of a name that leads to several addresses each attempt failed; that they did says `AggregateError`, and no more.
    if (error.message !== '' || causes.length === 0) causes.unshift(text);
    return [...new Set(causes)].join(': ').slice(0, LONGEST_TEXT);
  } catch {
    return 'unknown error';
  }
}

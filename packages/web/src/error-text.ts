// Errors of the program's Redis client. They can be values of any type.

/** The start of a server's error at its connection limit, which passes when other clients disconnect. */
const FULL = 'ERR max number of clients';

/** Whether the error is the server's refusal of a command. An error at the connection limit refuses the connection. */
export function isServerError(error: unknown): boolean {
  return error instanceof Error && error.name === 'ReplyError' && !error.message.startsWith(FULL);
}

/** The limits of a message: the depth of nested causes, and the length of the text. */
const MAX_CAUSES = 4;
const MAX_TEXT = 500;

/**
 * Returns the text of an error of any type. Adds the causes, except to a refusal of the server, whose text is complete.
 */
export function textOf(error: unknown, depth = 0): string {
  try {
    if (!(error instanceof Error)) return `${error}`.slice(0, MAX_TEXT);
    const text = `${error.message || error.name}`;
    if (depth === MAX_CAUSES || isServerError(error)) return text;
    const { cause, errors = [] } = error as { readonly cause?: unknown; readonly errors?: readonly unknown[] };
    const causes = [...errors, cause ?? ''].map((one) => textOf(one, depth + 1)).filter((one) => !text.includes(one));
    // For a host name with several addresses, `AggregateError` has an error for each failed attempt and an empty
    // message. Its name alone says nothing, so it is left out.
    if (error.message !== '' || causes.length === 0) causes.unshift(text);
    return [...new Set(causes)].join(': ').slice(0, MAX_TEXT);
  } catch {
    return 'unknown error';
  }
}

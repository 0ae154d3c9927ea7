// Who there is, and how clocks and tokens are shown.

/** Each client by its name, with its shape: colours alone would not do. */
export const SHAPES = { Ada: '●', Ben: '▲', Cleo: '■', Dan: '◆' };
export const NAMES = Object.keys(SHAPES);

/** Milliseconds by a clock that the page and its workers share. */
export const now = () => performance.timeOrigin + performance.now();

let tokens = [];

export function forgetTokens() {
  tokens = [];
}

/** Tokens have 16 digits; the page numbers them as they come. They rise, so the numbers do. */
export function numberOf(token) {
  if (!tokens.includes(token)) tokens.push(token);
  return tokens.indexOf(token) + 1;
}

export function tokenText(token) {
  return token === null ? 'no token' : `token ${numberOf(token)}`;
}

export const seconds = (ms) => `${(ms / 1_000).toFixed(2)} s`;

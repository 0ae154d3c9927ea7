// The names of the clients, and functions that show times and tokens.

/** The shape of each client, because not everybody can distinguish the colours. */
export const SHAPES = { Ada: '●', Ben: '▲', Cleo: '■', Dan: '◆' };
export const NAMES = Object.keys(SHAPES);

/** Returns the time in milliseconds, by a clock that the page and its workers share. */
export const now = () => performance.timeOrigin + performance.now();

let tokens = [];

export function forgetTokens() {
  tokens = [];
}

/** Returns a short number for a token, which has 16 digits. Tokens rise, so the page numbers them in order. */
export function numberOf(token) {
  if (!tokens.includes(token)) tokens.push(token);
  return tokens.indexOf(token) + 1;
}

export function tokenText(token) {
  return token === null ? 'no token' : `token ${numberOf(token)}`;
}

export const seconds = (ms) => `${(ms / 1_000).toFixed(2)} s`;

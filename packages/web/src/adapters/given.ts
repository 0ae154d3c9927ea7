// What adapters are given is looked at when it is given, so that a mistake is told where it is made.

import { InvalidArgumentError, MisconfiguredError } from '../errors.js';

/** The error for a client of the wrong sort, or of nothing. */
export function invalid(message: string): InvalidArgumentError {
  return new InvalidArgumentError(message, { operation: 'connect' });
}

/** The error for a client that is set up in a way that locks cannot work with. */
export function misconfigured(message: string): MisconfiguredError {
  return new MisconfiguredError(message, { operation: 'connect' });
}

/** A value's sort, as messages say it. Its text is the program's own, and may hold anything. */
export function sortOf(value: unknown): string {
  if (value === null) return 'null';
  return Array.isArray(value) ? 'an array' : typeof value;
}

/** Whether a value has functions of these names. A client may be a function itself, or a proxy of one. */
export function has(value: unknown, ...names: readonly string[]): boolean {
  if (value === null || (typeof value !== 'object' && typeof value !== 'function')) return false;
  return names.every((name) => typeof (value as Record<string, unknown>)[name] === 'function');
}

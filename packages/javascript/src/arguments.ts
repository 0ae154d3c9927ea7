// Checks for values of the wrong type, which JavaScript lets through and the core must not get. The core checks the
// ranges.

import { InvalidArgumentError, type Operation } from './errors.js';
import { SHOWN_NAME } from './internals.js';
import type { ClientOptions, Vocabulary } from './native.js';
import type { AcquireOptions, ConnectOptions, LockOptions, OnUnavailable, PermitOptions } from './options.js';
import { LANGUAGE, programName } from './program.js';
import { words } from './words.js';

/** The options that a lock object and a call have in common. */
const COMMON_OPTIONS: Record<keyof AcquireOptions, true> = {
  waitMs: true,
  leaseMs: true,
  renew: true,
  maxHoldMs: true,
  remainingMs: true,
  onUnavailable: true,
};
const OBJECT_OPTIONS: Record<keyof LockOptions, true> = { ...COMMON_OPTIONS, fencing: true };
const CALL_OPTIONS: Record<keyof PermitOptions | 'within', true> = { ...COMMON_OPTIONS, signal: true, within: true };

/** The number of characters of an unknown option's name that an error message shows. */
const MAX_SHOWN_NAME = 40;

/** The servers of a client: one server, or several primaries. */
export type Servers = { readonly url: string | undefined } | { readonly primaries: readonly string[] };

/** Returns a number of milliseconds, or `undefined`. */
export function number(value: unknown, what: string, operation: Operation): number | undefined {
  if (value === undefined || typeof value === 'number') return value;
  throw wrongType(what, 'a number of milliseconds', value, operation);
}

/** Returns a number that is required, such as a limit. */
export function count(value: unknown, what: string, operation: Operation): number {
  if (typeof value === 'number') return value;
  throw wrongType(what, 'a number', value, operation);
}

/** Returns the policy for acquisitions while the server is unavailable, or `undefined`. */
export function onUnavailable(value: unknown, operation: Operation): OnUnavailable | undefined {
  if (value === undefined) return value;
  const policies = words().policies;
  if (policies.includes(value as OnUnavailable)) return value as OnUnavailable;
  throw wrongType('onUnavailable', `one of ${policies.map((word) => `'${word}'`).join(', ')}`, value, operation);
}

/** Returns a boolean, or `undefined`. */
export function boolean(value: unknown, what: string, operation: Operation): boolean | undefined {
  if (value === undefined || typeof value === 'boolean') return value;
  throw wrongType(what, 'true or false', value, operation);
}

/** Returns a string, or `undefined`. */
export function string(value: unknown, what: string, operation: Operation): string | undefined {
  if (value === undefined || typeof value === 'string') return value;
  throw wrongType(what, 'a string', value, operation);
}

/**
 * Returns an object of options, or `undefined`. Refuses a signal, a lease or a promise: none of these has an option, so
 * they would silently mean the defaults.
 */
export function object<T extends object>(value: T | undefined, what: string, operation: Operation): T | undefined {
  if (value === undefined || isPlain(value)) return value;
  throw wrongType(what, 'an object', value, operation);
}

/** Whether the value is a plain object: no lock or lease, and of no built-in class. */
function isPlain(value: unknown): value is object {
  return typeof value === 'object' && value !== null && classOf(value) === 'Object';
}

/** Returns the name of an object's built-in class, also of another realm; for a lock or lease, 'a lock or lease'. */
function classOf(value: object): string {
  if (SHOWN_NAME in value) return 'a lock or lease';
  return Object.prototype.toString.call(value).slice('[object '.length, -1);
}

/**
 * Returns the options, and refuses unknown names: a misspelled `waitMs`, for example, would silently mean a wait
 * without a bound.
 */
function options<T extends object>(
  value: T | undefined,
  names: Record<string, true>,
  operation: Operation,
): T | undefined {
  const given = object(value, 'the options', operation);
  const unknown = given && Object.keys(given).find((name) => !Object.hasOwn(names, name));
  if (unknown === undefined) return given;
  const start = unknown.toLowerCase();
  const meant = Object.keys(names).find((name) => name.toLowerCase().startsWith(start));
  const advice = meant === undefined ? `there are ${Object.keys(names).join(', ')}` : `did you mean ${meant}?`;
  throw new InvalidArgumentError(`there is no option ${unknown.slice(0, MAX_SHOWN_NAME)}; ${advice}`, { operation });
}

/** Returns the items of an iterable as an array. */
export function list<T>(value: Iterable<T>, what: string, operation: Operation): T[] {
  if (typeof value === 'object' && value !== null && Symbol.iterator in value) return Array.from(value);
  throw wrongType(what, 'an array or another iterable', value, operation);
}

/**
 * Returns a signal, or `undefined`. Checks the shape and not the class, because signals of another realm or of a
 * polyfill have other classes.
 */
export function signal(value: unknown): AbortSignal | undefined {
  if (value === undefined || isSignal(value)) return value;
  throw wrongType('signal', 'an AbortSignal', value, 'acquire');
}

function isSignal(value: unknown): value is AbortSignal {
  if (typeof value !== 'object' || value === null) return false;
  const { aborted, addEventListener, removeEventListener } = value as Partial<AbortSignal>;
  return (
    typeof aborted === 'boolean' && typeof addEventListener === 'function' && typeof removeEventListener === 'function'
  );
}

/**
 * Returns the reason of an abort. For a signal without reasons, such as one of an old polyfill, returns the usual
 * `AbortError`; for a signal whose reason cannot be read, the error of reading it.
 */
export function reasonOf(signal: AbortSignal): unknown {
  try {
    if (signal.reason !== undefined) return signal.reason;
  } catch (error) {
    return error;
  }
  return new DOMException('This operation was aborted', 'AbortError');
}

/** Returns a lock's name. Checks only that it is a well-formed string; the core checks the rest. */
export function lockName(value: unknown, operation: Operation): string {
  if (typeof value !== 'string') throw wrongType('the lock name', 'a string', value, operation);
  return wellFormed(value, 'the lock name', operation);
}

/**
 * Refuses a lone surrogate, which UTF-8 cannot express: with a replacement character in its place, two different names
 * would be one lock.
 */
function wellFormed<T extends string | undefined>(value: T, what: string, operation: Operation): T {
  if (value !== undefined && /\p{Surrogate}/u.test(value)) {
    throw new InvalidArgumentError(`${what} has a lone surrogate; give well-formed text`, { operation });
  }
  return value;
}

/** Returns the options of a lock object after a check of their types. */
export function objectOptions(wanted: LockOptions | undefined): LockOptions | undefined {
  const given = acquireOptions(readOnce(options(wanted, OBJECT_OPTIONS, 'acquire'), OBJECT_OPTIONS));
  boolean(given?.fencing, 'fencing', 'acquire');
  return given;
}

/** Returns the options of a call. Checks numbers, flags and words; the caller checks `signal` and `within`. */
export function callOptions<T extends PermitOptions>(wanted: T | undefined): T | undefined {
  return acquireOptions(readOnce(options(wanted, CALL_OPTIONS, 'acquire'), CALL_OPTIONS));
}

/**
 * Copies the options, reading each once: options can be getters or a proxy, and the value that is checked must be the
 * value that is used.
 */
function readOnce<T extends object>(given: T | undefined, names: Record<string, true>): T | undefined {
  if (given === undefined) return undefined;
  const read: Record<string, unknown> = {};
  for (const name in names) {
    const value: unknown = given[name as keyof T];
    if (value !== undefined) read[name] = value;
  }
  return read as T;
}

/** Returns the options of `using(name, …)` for the lock object and for the call. Common options are in both. */
export function splitOptions<T extends PermitOptions & LockOptions & { readonly within?: unknown }>(
  wanted: T | undefined,
) {
  if (wanted === undefined) return [wanted, wanted] as const;
  const { fencing, ...ofCall } = wanted;
  const { signal, within, ...ofObject } = wanted;
  return [ofObject, ofCall] as const;
}

function acquireOptions<T extends AcquireOptions>(given: T | undefined): T | undefined {
  if (given === undefined) return undefined;
  number(given.waitMs, 'waitMs', 'acquire');
  number(given.leaseMs, 'leaseMs', 'acquire');
  boolean(given.renew, 'renew', 'acquire');
  number(given.maxHoldMs, 'maxHoldMs', 'acquire');
  if (typeof given.remainingMs !== 'function') number(given.remainingMs, 'remainingMs', 'acquire');
  onUnavailable(given.onUnavailable, 'acquire');
  return given;
}

/** Returns the time that the caller has left now, in milliseconds. */
export function remaining(value: number | (() => number) | undefined): number | undefined {
  return number(typeof value === 'function' ? value() : value, 'remainingMs', 'acquire');
}

/** The options of the core that `ConnectOptions` does not have. */
const INTERNAL_OPTIONS = new Set(['url', 'primaries', 'program', 'language', 'log']);

type OptionKind = Vocabulary['optionKinds'][number];

/** For each kind of option, a function that checks the type of a value and returns it for the native library. */
const CHECKS: Record<OptionKind, (value: unknown, name: string) => unknown> = {
  flag: (value, name) => boolean(value, name, 'connect'),
  number: (value, name) => (name.endsWith('Ms') ? number(value, name, 'connect') : count(value, name, 'connect')),
  text: (value, name) => wellFormed(string(value, name, 'connect'), name, 'connect'),
  texts: (value, name) => names(value, name, 'connect'),
  range: retryInterval,
  table: addressTable,
  on_unavailable: (value) => onUnavailable(value, 'connect'),
};

/** Returns the options of a client as the native library takes them. */
export function clientOptions(servers: Servers, wanted: ConnectOptions | undefined): ClientOptions {
  const { optionNames, optionKinds } = words();
  const kinds = new Map(optionNames.map((name, index) => [name, optionKinds[index]]));
  const ofPrograms = optionNames.filter((name) => !INTERNAL_OPTIONS.has(name));
  const known = Object.fromEntries(ofPrograms.map((name) => [name, true as const]));
  const given = readOnce(options(wanted, known, 'connect'), known) ?? {};
  const checked = Object.entries(given).map(([name, value]) => [
    name,
    CHECKS[kinds.get(name) as OptionKind](value, name),
  ]);
  const everything = [...Object.entries(servers), ...checked].filter(([, value]) => value !== undefined);
  return { ...Object.fromEntries(everything), program: programName(), language: LANGUAGE };
}

/** Returns the table of `addressMap`; `undefined` if it is a function. */
function addressTable(given: unknown): Record<string, string> | undefined {
  if (typeof given === 'function') return undefined;
  if (!(given instanceof Map || isPlain(given))) {
    throw wrongType('addressMap', 'an object of strings, a Map or a function', given, 'connect');
  }
  const entries: [unknown, unknown][] = given instanceof Map ? [...given] : Object.entries(given);
  for (const side of entries.flat()) {
    if (typeof side !== 'string') throw wrongType('each address of addressMap', 'a string', side, 'connect');
  }
  return Object.fromEntries(entries as [string, string][]);
}

function names(value: unknown, what: string, operation: Operation): string[] {
  if (!Array.isArray(value)) throw wrongType(what, 'an array of strings', value, operation);
  return Array.from(value, (name: unknown) => {
    if (typeof name === 'string') return name;
    throw wrongType(`each of ${what}`, 'a string', name, operation);
  });
}

/**
 * Returns an address as text. It can be given as text or as a `URL` object. Does not use `instanceof`, because each
 * realm has a class `URL` of its own.
 */
export function address(value: unknown, what: string): string {
  if (typeof value === 'string') return value;
  if (Object.prototype.toString.call(value) === '[object URL]') return String(value);
  if (isRedisClient(value)) {
    throw new InvalidArgumentError(
      `${what} must be a string or a URL, not a Redis client; give the URL that the client connects to: this package ` +
        'opens connections of its own (the package steadlock-web takes such clients, by its adapters)',
      { operation: 'connect' },
    );
  }
  if (typeof value === 'object' && value !== null && 'url' in value) {
    throw new InvalidArgumentError(`${what} must be a string or a URL, not an object; call connect(url, options)`, {
      operation: 'connect',
    });
  }
  throw wrongType(what, 'a string or a URL', value, 'connect');
}

/** Whether the value has the methods that the clients of ioredis, node-redis and similar libraries share. */
function isRedisClient(value: unknown): boolean {
  if (typeof value !== 'object' || value === null) return false;
  const { duplicate, sendCommand } = value as Record<string, unknown>;
  return typeof duplicate === 'function' && typeof sendCommand === 'function';
}

function retryInterval(value: unknown, name: string): [number, number] {
  if (Array.isArray(value) && value.length === 2) {
    const [min, max]: unknown[] = value;
    if (typeof min === 'number' && typeof max === 'number') return [min, max];
  }
  throw wrongType(name, 'two numbers of milliseconds, [min, max]', value, 'connect');
}

/** @internal Returns the error for a value of a wrong type. */
export function wrongType(what: string, wanted: string, value: unknown, operation: Operation): InvalidArgumentError {
  return new InvalidArgumentError(`${what} must be ${wanted}, not ${describe(value)}`, { operation });
}

/** Describes a value for an error message. Shows no text of a string, because it can contain a secret. */
function describe(value: unknown): string {
  if (value === null) return 'null';
  if (Array.isArray(value)) return 'an array';
  try {
    if (typeof value === 'object' && !isPlain(value)) return classOf(value);
  } catch {
    return 'an object that throws when it is inspected';
  }
  return typeof value === 'number' ? `${value}` : typeof value;
}

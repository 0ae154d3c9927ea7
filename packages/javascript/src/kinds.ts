// The kinds of lock, and locks in the form of the core.

import type { NativeLock } from './native.js';

/** Every kind of single lock in the core, with the client's method that makes locks of that kind. */
export const FACTORIES = {
  lock: 'lock',
  mutex: 'mutex',
  fair_lock: 'fairLock',
  read_lock: 'readWriteLock',
  write_lock: 'readWriteLock',
  semaphore: 'semaphore',
} as const;

/** A kind whose locks differ only by their names. */
export type NamedKind = Exclude<keyof typeof FACTORIES, 'semaphore'>;

/** Returns permits of a semaphore, as a lock. */
export function permitsOf(name: string, permits: number, limit: number): NativeLock {
  return { kind: 'semaphore', name, permits, limit };
}

/** Returns the composite lock of these members. */
export function compositeOf(members: readonly NativeLock[]): NativeLock {
  return { kind: 'multi_lock', name: members.map(({ name }) => name).join(', '), members };
}

/** Whether two descriptions are of the same lock. */
export function isSameLock(one: NativeLock, other: NativeLock): boolean {
  if (one === other) return true;
  const [members, others] = [one.members ?? [], other.members ?? []];
  return (
    one.kind === other.kind &&
    one.name === other.name &&
    one.permits === other.permits &&
    one.limit === other.limit &&
    members.length === others.length &&
    members.every((member, index) => isSameLock(member, others[index] as NativeLock))
  );
}

// The kinds of lock, and the text by which the core knows one lock: its address.
// No name holds NUL, so that no name can be taken for another address.

/** Every kind of the core, and the method of a client that makes its locks. */
export const FACTORIES = {
  lock: 'lock',
  mutex: 'mutex',
  fair_lock: 'fairLock',
  read_lock: 'readWriteLock',
  write_lock: 'readWriteLock',
  semaphore: 'semaphore',
} as const;

/** A kind whose locks are told apart by their names alone. */
export type NamedKind = Exclude<keyof typeof FACTORIES, 'semaphore'>;

/** The address of a lock of any kind but the semaphore. */
export function addressOf(kind: NamedKind, name: string): string {
  return `${kind}\0${name}`;
}

/** The address of so many permits of a semaphore. */
export function permitsAddress(permits: number, limit: number, name: string): string {
  return `semaphore\0${permits}\0${limit}\0${name}`;
}

/** The kind of lock that an address is of, as the metrics call it. */
export function kindOf(address: string): string {
  const kind = address.slice(0, address.indexOf('\0'));
  return kind === 'multi' ? 'multi_lock' : kind;
}

/** The address of several locks as one. */
export function multiAddress(addresses: readonly string[]): string {
  return `multi\0${addresses.map((address) => `${utf8.encode(address).length}\0${address}`).join('')}`;
}

const utf8 = new TextEncoder();

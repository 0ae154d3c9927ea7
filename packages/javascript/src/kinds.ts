// The kinds of lock, and the address of a lock: the text that identifies it for the core. No name contains NUL, so no
// name can look like another address.

/** Every kind of the core, with the client's method that makes locks of that kind. */
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

/** Returns the address of a lock of any kind but the semaphore. */
export function addressOf(kind: NamedKind, name: string): string {
  return `${kind}\0${name}`;
}

/** Returns the address of a number of permits of a semaphore. */
export function permitsAddress(permits: number, limit: number, name: string): string {
  return `semaphore\0${permits}\0${limit}\0${name}`;
}

/** Returns the kind of the lock at an address, as the metrics call it. */
export function kindOf(address: string): string {
  const kind = address.slice(0, address.indexOf('\0'));
  return kind === 'multi' ? 'multi_lock' : kind;
}

/** Returns the address of a composite lock. */
export function multiAddress(addresses: readonly string[]): string {
  return `multi\0${addresses.map((address) => `${utf8.encode(address).length}\0${address}`).join('')}`;
}

const utf8 = new TextEncoder();

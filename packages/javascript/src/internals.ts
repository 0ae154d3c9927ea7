// Members that the public objects use among themselves. Their keys are symbols that no program has, so that a program
// can neither call nor override them by a name.

/** A lock's method that acquires it, or a number of its permits. */
export const ACQUIRE = Symbol('acquire');
/** A lock's method that returns what a call acquires, for the native library, if the lock is of the given engine. */
export const LOCK_IN = Symbol('lockIn');
/** A semaphore's single permit, as a lock. */
export const PERMIT = Symbol('permit');
/** A lease's state. */
export const HOLD = Symbol('hold');
/** A lease's method that returns the number of the lease, if the lease is of the given engine. */
export const ID_IN = Symbol('idIn');
/** A lease's method that tells whether it belongs to a lock. */
export const BELONGS_TO = Symbol('belongsTo');
/** A lease's method that releases it at the end of a scope. */
export const END_SCOPE = Symbol('endScope');
/** A lease's method that releases it and reports a loss. */
export const UNLOCK = Symbol('unlock');
/** The name of a lock or lease, for a message. */
export const SHOWN_NAME = Symbol('shownName');
/** A static method of the class `Client` that returns the engine of a client. */
export const ENGINE_OF = Symbol('engineOf');

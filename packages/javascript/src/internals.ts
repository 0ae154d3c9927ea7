// Members by which the objects that users have ask one another. The keys are symbols that no user has, so that none of it can be
// called, or overridden, by a name.

/** Of a lock: takes what an address says. */
export const ACQUIRE = Symbol('acquire');
/** Of a lock: its address in an engine. */
export const ADDRESS_IN = Symbol('addressIn');
/** Of a semaphore: one permit, as a lock. */
export const PERMIT = Symbol('permit');
/** Of a lease: what is known of it until it is lost or released. */
export const HOLD = Symbol('hold');
/** Of a lease: its number in an engine. */
export const ID_IN = Symbol('idIn');
/** Of a lease: whether it is of a lock. */
export const IS_OF = Symbol('isOf');
/** Of a lease: releases at the end of a scope. */
export const LEAVE = Symbol('leave');
/** Of a lease: releases, and tells of a loss. */
export const UNLOCK = Symbol('unlock');
/** Of what has a name: that, for a message. */
export const SHOWN_NAME = Symbol('shownName');
/** Of the class of clients: the engine of one. */
export const ENGINE_OF = Symbol('engineOf');

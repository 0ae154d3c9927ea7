package io.github.steadlock.spring;

/**
 * Which lock of a name {@link DistributedLock} takes. Locks of different kinds exclude each other
 * only as said here.
 */
public enum LockKind {
    /** The reentrant lock. Excludes {@link #FAIR} of the name. */
    LOCK,

    /**
     * The reentrant lock whose waiters are served in order of arrival. Excludes {@link #LOCK} of
     * the name.
     */
    FAIR,

    /**
     * The simple lock, in the record of most other lock libraries and of hand-written {@code SET
     * NX} locks, which it excludes. Not reentrant. A name is for it or for {@link #LOCK} and {@link
     * #FAIR}, not for both.
     */
    MUTEX,

    /**
     * The read side of the read-write lock: many may hold it, unless somebody holds {@link #WRITE}.
     */
    READ,

    /** The write side of the read-write lock. */
    WRITE,

    /**
     * One permit of the semaphore, whose {@link DistributedLock#limit()} says how many there are.
     */
    SEMAPHORE
}

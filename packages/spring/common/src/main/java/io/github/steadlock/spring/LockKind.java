package io.github.steadlock.spring;

/**
 * The kind of lock that {@link DistributedLock} acquires. Locks of different kinds with the same
 * name exclude each other only where the kinds below mention it.
 */
public enum LockKind {
    /** The reentrant lock. Excludes {@link #FAIR} of the same name. */
    LOCK,

    /**
     * The reentrant lock whose waiters are served in order of arrival. Excludes {@link #LOCK} of
     * the same name.
     */
    FAIR,

    /**
     * The simple lock, which is not reentrant. Its record has the format of most other lock
     * libraries and of hand-written {@code SET NX} locks, which it excludes. Use a name either for
     * this kind or for {@link #LOCK} and {@link #FAIR}, because they share one key.
     */
    MUTEX,

    /**
     * The read side of the read-write lock: many callers can hold it, unless another caller holds
     * {@link #WRITE}.
     */
    READ,

    /** The write side of the read-write lock. */
    WRITE,

    /** One permit of the semaphore, which has {@link DistributedLock#limit()} permits. */
    SEMAPHORE
}

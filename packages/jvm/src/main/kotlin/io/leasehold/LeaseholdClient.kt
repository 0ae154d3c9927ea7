package io.leasehold

import io.leasehold.internal.Engine
import io.leasehold.internal.LockKey
import io.leasehold.internal.ThreadLock

/**
 * A connection to one Redis or Valkey, through which locks are taken. Make one per process and share it: it is safe
 * for use by several threads, and a lock object costs next to nothing.
 *
 * An idle client, and also one that holds locks, does not keep the JVM from ending. When it ends, holds of threads
 * that have ended are released; threads that still run keep theirs until the process is gone.
 */
public class LeaseholdClient internal constructor(internal val engine: Engine) : AutoCloseable {
    /**
     * The lock of that name.
     *
     * @param name 1 to 512 bytes of UTF-8 without NUL, checked when the lock is taken; braces only as one non-empty
     * `{tag}`; not beginning with `leasehold:` or `redisson_`
     */
    public fun lock(name: String): DistributedLock = lock(name, LockOptions.DEFAULT)

    /** The lock of that name, taken with [options] unless a call says otherwise. */
    public fun lock(name: String, options: LockOptions): DistributedLock = ThreadLock(engine, LockKey(name), options)

    /** Whether [close] was called. */
    public val isClosed: Boolean
        get() = engine.isClosed

    /**
     * Closes the client: waiters get [ClosedException], held leases are lost for the reason [LostReason.CLOSED] and
     * are then released. Takes 500 ms at the most, whatever the server does. The second time it does nothing.
     */
    override fun close() {
        engine.close()
    }
}

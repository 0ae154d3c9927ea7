package io.github.steadlock.internal

import java.util.concurrent.ConcurrentLinkedDeque

/**
 * The leases that each thread has made current, innermost first. For the lock of such a lease, the thread acts as the
 * owner of the lease.
 */
internal object CurrentLeases {
    // The value is a JDK class, because a thread can outlive the class loader of this library and would keep it alive.
    // If the last scope closes on another thread, an empty deque stays behind.
    private val ofThread = ThreadLocal<ConcurrentLinkedDeque<Any>>()

    /** Makes [lease] current in the calling thread, until the result is run, on any thread. */
    fun enter(lease: HeldLease): Runnable {
        val leases = ofThread.get() ?: ConcurrentLinkedDeque<Any>().also(ofThread::set)
        // A new object for each call: if a lease is current twice, each result removes one entry.
        val entry = arrayOf<Any>(lease)
        leases.addFirst(entry)
        return Runnable {
            leases.removeIf { it === entry }
            if (leases.isEmpty() && ofThread.get() === leases) ofThread.remove()
        }
    }

    /**
     * Returns the innermost current lease whose owner would re-enter [lock], or would wait for itself if it acquired
     * [lock].
     */
    fun covering(engine: Engine, lock: LockRef): HeldLease? = all().firstOrNull { it.covers(engine, lock) }

    /**
     * Returns the same as [covering], but only among leases that no thread acquired. If a stage re-entered by a lease
     * of the thread, stage and thread would be one owner: after the thread has released its own lease, it could still
     * re-enter the hold of the stage.
     */
    fun coveringStage(engine: Engine, lock: LockRef): HeldLease? =
        all().firstOrNull { it.owner.threadName == null && it.covers(engine, lock) }

    /** Returns whether a caller that is no thread would wait for the owner of a current lease if it acquired [lock]. */
    fun keepsOut(engine: Engine, lock: LockRef): Boolean = all().any { it.keepsOut(engine, lock) }

    private fun all(): Sequence<HeldLease> =
        ofThread.get().orEmpty().asSequence().map { (it as Array<*>)[0] as HeldLease }
}

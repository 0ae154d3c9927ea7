package io.github.steadlock.internal

import java.util.concurrent.ConcurrentLinkedDeque

/** The leases that each thread has made current, the innermost first. For their locks the thread is their owner. */
internal object CurrentLeases {
    // As in Owner, no class of this library. The values are removed with the last scope.
    private val ofThread = ThreadLocal<ConcurrentLinkedDeque<Any>>()

    /** Makes [lease] current in the calling thread. Running the result, on any thread, ends that. */
    fun enter(lease: HeldLease): Runnable {
        val leases = ofThread.get() ?: ConcurrentLinkedDeque<Any>().also(ofThread::set)
        // A lease that is current twice is left once for each.
        val entry = arrayOf<Any>(lease)
        leases.addFirst(entry)
        return Runnable {
            leases.removeIf { it === entry }
            if (leases.isEmpty() && ofThread.get() === leases) ofThread.remove()
        }
    }

    /** The innermost current lease whose owner may enter [lock] again, or would wait for itself. */
    fun covering(engine: Engine, lock: LockKey): HeldLease? = all().firstOrNull { it.covers(engine, lock) }

    /**
     * The same among leases that no thread acquired: a thread would enter again what a stage holds that entered by a
     * lease of the thread, after the thread has released its own.
     */
    fun coveringStage(engine: Engine, lock: LockKey): HeldLease? =
        all().firstOrNull { it.owner.threadName == null && it.covers(engine, lock) }

    /** Whether a caller that is no thread would wait for the owner of a current lease if it asked for [lock]. */
    fun keepsOut(engine: Engine, lock: LockKey): Boolean = all().any { it.keepsOut(engine, lock) }

    private fun all(): Sequence<HeldLease> =
        ofThread.get().orEmpty().asSequence().map { (it as Array<*>)[0] as HeldLease }
}

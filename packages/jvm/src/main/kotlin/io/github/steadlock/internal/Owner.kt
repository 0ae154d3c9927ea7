package io.github.steadlock.internal

import java.lang.ref.WeakReference
import java.util.concurrent.atomic.AtomicLong

/**
 * The owner of a hold: a platform or virtual thread, or a stage or coroutine, which are no threads.
 *
 * @property context a number that no other owner ever has. A thread id would not do, because the JVM can reuse it
 */
internal class Owner private constructor(val context: Long, thread: Thread?) {
    /**
     * The name of the thread, or its id if it has no name, as is common for virtual threads. Null for an owner that is
     * no thread.
     */
    val threadName: String? = thread?.run { name.ifEmpty { "#$id" } }
    private val thread = thread?.let(::WeakReference)

    /** Whether the owner is a thread that has ended. A thread object that is garbage belongs to an ended thread. */
    val hasEnded: Boolean
        get() = thread != null && thread.get()?.isAlive != true

    companion object {
        private val contexts = AtomicLong()

        // The value is a JDK class, because a thread can outlive the class loader of an undeployed program and would
        // keep it alive.
        private val current: ThreadLocal<Long> = ThreadLocal.withInitial(contexts::incrementAndGet)

        /** Returns a new owner that is no thread. */
        fun ofNoThread(): Owner = Owner(contexts.incrementAndGet(), null)

        /**
         * Returns the owner for a stage that the calling thread starts for [lock]: a new owner, or the owner of a
         * current lease.
         */
        fun ofStage(engine: Engine, lock: LockRef): Owner =
            Owner(CurrentLeases.coveringStage(engine, lock)?.context ?: contexts.incrementAndGet(), null)

        /**
         * Returns the owner for an acquisition of [lock] by the calling thread: the thread itself, or the owner of a
         * current lease.
         */
        fun current(engine: Engine, lock: LockRef): Owner {
            val context = CurrentLeases.covering(engine, lock)?.context ?: current.get()
            return Owner(context, Thread.currentThread())
        }
    }
}

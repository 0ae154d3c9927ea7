package io.github.steadlock.internal

import java.lang.ref.WeakReference
import java.util.concurrent.atomic.AtomicLong

/**
 * The owner of a hold: a platform or virtual thread, or a stage or coroutine, which is no thread.
 *
 * @property context a number that is never another owner's, unlike a thread id, which is used again
 */
internal class Owner private constructor(val context: Long, thread: Thread?) {
    /** Null of an owner that is no thread. Virtual threads may have no name. */
    val threadName: String? = thread?.run { name.ifEmpty { "#$id" } }
    private val thread = thread?.let(::WeakReference)

    /** Whether it is a thread that can run no more; a thread that was collected cannot. */
    val hasEnded: Boolean
        get() = thread != null && thread.get()?.isAlive != true

    companion object {
        private val contexts = AtomicLong()

        // A thread outlives the class loader of a program that was undeployed, so it keeps a class of the JDK only.
        private val current: ThreadLocal<Long> = ThreadLocal.withInitial(contexts::incrementAndGet)

        /** An owner that is no thread, which nobody else is. */
        fun ofNoThread(): Owner = Owner(contexts.incrementAndGet(), null)

        /** Who a stage of the calling thread is for [lock]: nobody else, or the owner of a current lease. */
        fun ofStage(engine: Engine, lock: LockKey): Owner =
            Owner(CurrentLeases.coveringStage(engine, lock)?.context ?: contexts.incrementAndGet(), null)

        /** Who the calling thread is for [lock]: itself, or the owner of a lease that it has made current. */
        fun current(engine: Engine, lock: LockKey): Owner {
            val context = CurrentLeases.covering(engine, lock)?.context ?: current.get()
            return Owner(context, Thread.currentThread())
        }
    }
}

package io.github.steadlock.internal

import java.lang.ref.WeakReference
import java.util.concurrent.atomic.AtomicLong

/**
 * A platform or virtual thread as the owner of locks.
 *
 * @property context a number that is never another thread's, unlike a thread id, which is used again
 */
internal class Owner private constructor(val context: Long, thread: Thread) {
    val threadName: String = thread.name
    private val thread = WeakReference(thread)

    /** Whether the thread can run no more; a thread that was collected cannot. */
    val hasEnded: Boolean
        get() = thread.get()?.isAlive != true

    companion object {
        private val contexts = AtomicLong()

        // A thread outlives the class loader of a program that was undeployed, so it keeps a class of the JDK only.
        private val current: ThreadLocal<Long> = ThreadLocal.withInitial(contexts::incrementAndGet)

        /** The calling thread's. */
        fun current(): Owner = Owner(current.get(), Thread.currentThread())
    }
}

package io.leasehold.internal

import java.lang.ref.WeakReference
import java.util.concurrent.atomic.AtomicLong

/** A platform or virtual thread as the owner of locks. */
internal class Owner private constructor(thread: Thread) {
    /** A number that is never another thread's, unlike a thread id, which is used again. */
    val context: Long = contexts.incrementAndGet()

    val threadName: String = thread.name
    private val thread = WeakReference(thread)

    /** Whether the thread can run no more; a thread that was collected cannot. */
    val hasEnded: Boolean
        get() = thread.get()?.isAlive != true

    companion object {
        private val contexts = AtomicLong()
        private val current = ThreadLocal.withInitial { Owner(Thread.currentThread()) }

        /** The calling thread's. */
        fun current(): Owner = current.get()
    }
}

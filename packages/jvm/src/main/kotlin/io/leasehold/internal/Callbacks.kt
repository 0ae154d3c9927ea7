package io.leasehold.internal

import java.util.concurrent.Executor
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.SynchronousQueue
import java.util.concurrent.ThreadPoolExecutor
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

/** Runs users' code away from the thread that fetches events, which must never block. */
internal class Callbacks(private val executor: Executor?) {
    fun run(task: Runnable) {
        val chosen = executor ?: return daemons.execute(task)
        try {
            chosen.execute(task)
        } catch (_: RejectedExecutionException) {
            // A user's pool that is shut down must not swallow the news of a lost lease.
            daemons.execute(task)
        }
    }

    private companion object {
        private val count = AtomicInteger()

        /** As many threads as there are callbacks at once; none while there are none. */
        private val daemons =
            ThreadPoolExecutor(0, Int.MAX_VALUE, 10, TimeUnit.SECONDS, SynchronousQueue()) { task ->
                Thread(task, "leasehold-callback-${count.incrementAndGet()}").apply { isDaemon = true }
            }
    }
}

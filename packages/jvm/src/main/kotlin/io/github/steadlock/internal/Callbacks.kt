package io.github.steadlock.internal

import java.util.concurrent.CompletableFuture
import java.util.concurrent.Executor
import java.util.concurrent.RejectedExecutionException
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/**
 * Runs users' code away from the thread that fetches events, which must never block or fail.
 *
 * The user's [executor] counts as the user's code, too: it may run a task where it is called, wait for a free place,
 * or throw. So only the threads here call it. There are as many of them as tasks at once, but no more than [MOST] at
 * work; further tasks wait for one of them. One that waits for an answer of the client ([whileWaiting]) is not at work:
 * what it waits for may be the affair of a task that still waits. They end when there is nothing to do for a while.
 * The library's own tasks ([runHere]) have threads of their own: blocked callbacks keep no coroutine waiting.
 */
internal class Callbacks(private val executor: Executor?) {
    private val monitor = ReentrantLock()
    private val changed = monitor.newCondition()
    private val waiting = ArrayDeque<Runnable>()
    private var workers = 0
    private var idle = 0
    private var lastBegun = System.nanoTime()
    private var lastWarned = lastBegun - WARN_NANOS
    private val own by lazy { Callbacks(null) }

    /** Has the user's executor run [task], or does so here if there is none or it fails. Never throws. */
    fun run(task: Runnable) {
        val once = Once(task)
        if (executor == null) submit(once) else submit { executor.executeOrRun(once) }
    }

    /** Runs a task of the library, whatever callbacks do. Never throws. */
    fun runHere(task: Runnable) = own.submit(Once(task))

    private fun submit(task: Runnable) {
        val isWorkerMissing =
            monitor.withLock {
                waiting += task
                changed.signal()
                countMissing().also { warnOfStandstill() }
            }
        if (isWorkerMissing) start()
    }

    /** Short callbacks begin one after the other, however many there are. */
    private fun warnOfStandstill() {
        val now = System.nanoTime()
        if (workers < MOST || now - lastBegun < STANDSTILL_NANOS || now - lastWarned < WARN_NANOS) return
        lastWarned = now
        Log.warn(
            "$MOST callbacks have not returned, so that others wait, and with them notices of lost leases: " +
                "a callback that blocks is for an executor of its own (callbackExecutor)",
        )
    }

    /** Whether another thread is to be started, which counts already. */
    private fun countMissing(): Boolean = (waiting.size > idle && workers < MOST).also { if (it) workers++ }

    private fun start() {
        try {
            Worker("steadlock-callback-${count.incrementAndGet()}", this).start()
        } catch (failure: Throwable) {
            // The task waits for a thread that there is already, or for the next attempt to start one.
            monitor.withLock { workers-- }
            Log.error("no thread could be started for a callback, which has to wait", failure)
        }
    }

    private fun work() {
        var isCounted = true
        try {
            while (true) {
                // What a callback left behind is not for the next one.
                Thread.interrupted()
                val task = next()
                if (task == null) {
                    isCounted = false
                    return
                }
                task.run()
            }
        } finally {
            // As without memory, in which not even a failure can be told: another thread takes this one's place.
            if (isCounted) monitor.withLock { workers-- }
        }
    }

    /** Another thread does this one's work meanwhile. */
    private inline fun <R> replaced(wait: () -> R): R {
        val isWorkerMissing =
            monitor.withLock {
                workers--
                countMissing()
            }
        if (isWorkerMissing) start()
        try {
            return wait()
        } finally {
            monitor.withLock { workers++ }
        }
    }

    /** The next task, or null if the worker is to end. */
    private fun next(): Runnable? =
        monitor.withLock {
            if (workers > MOST) {
                // It was replaced while it waited.
                workers--
                return@withLock null
            }
            idle++
            try {
                var left = IDLE_NANOS
                while (waiting.isEmpty() && left > 0) {
                    left = changed.awaitNanos(left)
                }
            } catch (_: InterruptedException) {
                // Nobody but a stray callback can mean this thread, and it has other work.
            } finally {
                idle--
            }
            waiting.removeFirstOrNull().also { if (it == null) workers-- else lastBegun = System.nanoTime() }
        }

    private fun Executor.executeOrRun(task: Once) {
        try {
            execute(task)
        } catch (failure: Throwable) {
            if (failure !is RejectedExecutionException) {
                Log.error("the callback executor failed; the callback runs without it", failure)
            }
            // A user's executor that fails or is shut down must not swallow the news of a lost lease.
            task.run()
        }
    }

    private class Worker(name: String, val pool: Callbacks) : Thread(null, null, name, 0, false) {
        init {
            isDaemon = true
        }

        override fun run() = pool.work()
    }

    /** Runs once, and lets nothing out. */
    private class Once(private val task: Runnable) : Runnable {
        private val isStarted = AtomicBoolean()

        override fun run() {
            if (!isStarted.compareAndSet(false, true)) return
            try {
                task.run()
            } catch (failure: Throwable) {
                Log.error("a callback failed", failure)
            }
        }
    }

    companion object {
        /** The most threads that callbacks of one client take. */
        const val MOST = 64
        private val IDLE_NANOS = TimeUnit.SECONDS.toNanos(5)
        private val STANDSTILL_NANOS = TimeUnit.SECONDS.toNanos(1)
        private val WARN_NANOS = TimeUnit.MINUTES.toNanos(1)
        private val count = AtomicInteger()

        /** Whether the calling thread runs callbacks, and so has to be replaced while it waits. */
        val isHere: Boolean
            get() = Thread.currentThread() is Worker

        /** Has the calling thread wait, for which another one takes its place if it is one of these. */
        fun <R> whileWaiting(wait: () -> R): R {
            val worker = Thread.currentThread() as? Worker ?: return wait()
            return worker.pool.replaced(wait)
        }
    }
}

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
 * The threads that run the program's code, because the thread that fetches events must never block or fail.
 *
 * The program's [executor] counts as the program's code too: it may run a task on the calling thread, block until it
 * has room, or throw. For this reason only the threads of this class call the executor. There are as many of these
 * threads as there are tasks at once, but no more than [MAX_THREADS] busy ones; further tasks wait. A thread that waits
 * for a reply of the client ([whileWaiting]) does not count as busy, because the reply may depend on a task that still
 * waits. Idle threads end after a while. The library's own tasks ([runInternal]) have threads of their own, so that
 * blocked callbacks do not delay coroutines.
 */
internal class Callbacks(private val executor: Executor?) {
    private val monitor = ReentrantLock()
    private val changed = monitor.newCondition()
    private val waiting = ArrayDeque<Runnable>()
    private var workers = 0
    private var idle = 0
    private var lastStart = System.nanoTime()
    private var lastWarned = lastStart - WARN_NANOS
    private val lazyInternal = lazy { Callbacks(null).also { it.onShortage { onShortage() } } }
    private val internalPool by lazyInternal

    /** Whether the system refused a thread: tasks may wait until [startMissingThreads] starts one. */
    @Volatile
    private var isThreadMissing = false

    /** Called when the system refuses a thread. */
    @Volatile
    private var onShortage: () -> Unit = {}

    /** Whether [startMissingThreads] has to be called from time to time. */
    val needsThreads: Boolean
        get() = isThreadMissing || (lazyInternal.isInitialized() && internalPool.isThreadMissing)

    /**
     * Runs [task] on the program's executor, or on a thread of this class if there is no executor or the executor
     * fails. Never throws.
     */
    fun run(task: Runnable) {
        val once = Once(task)
        if (executor == null) submit(once) else submit { executor.executeOrRun(once) }
    }

    /** Runs a task of the library, independently of the program's callbacks. Never throws. */
    fun runInternal(task: Runnable) = internalPool.submit(Once(task))

    /** Starts the threads that the system refused before. */
    fun startMissingThreads() {
        if (isThreadMissing) {
            isThreadMissing = false
            while (!isThreadMissing && monitor.withLock { countMissing() }) start(isRepeated = true)
        }
        if (lazyInternal.isInitialized()) internalPool.startMissingThreads()
    }

    /**
     * Sets the function that is called, on any thread, when the system refuses a thread. [startMissingThreads] has to
     * be called later then.
     */
    fun onShortage(call: () -> Unit) {
        onShortage = call
    }

    private fun submit(task: Runnable) {
        val isWorkerMissing =
            monitor.withLock {
                waiting += task
                changed.signal()
                countMissing().also { warnIfBlocked() }
            }
        if (isWorkerMissing) start()
    }

    /**
     * Logs a warning if all threads are busy and no task has begun for a second. Short callbacks cause no warning,
     * however many there are, because tasks keep beginning.
     */
    private fun warnIfBlocked() {
        val now = System.nanoTime()
        if (workers < MAX_THREADS || now - lastStart < BLOCKED_NANOS || now - lastWarned < WARN_NANOS) return
        lastWarned = now
        Log.warn(
            "$MAX_THREADS callbacks have not returned, so others wait, also those for lost leases: " +
                "run callbacks that block on an executor of your own (callbackExecutor)",
        )
    }

    /** Counts another thread if one must be started. Returns whether the caller must start it. */
    private fun countMissing(): Boolean = (waiting.size > idle && workers < MAX_THREADS).also { if (it) workers++ }

    private fun start(isRepeated: Boolean = false) {
        try {
            Worker("steadlock-callback-${count.incrementAndGet()}", this).start()
        } catch (failure: Throwable) {
            // The task stays queued, for a thread that exists already or for the next attempt to start one.
            monitor.withLock { workers-- }
            isThreadMissing = true
            if (isRepeated) return
            Log.error("no thread could be started for a callback, which has to wait", failure)
            onShortage()
        }
    }

    private fun work() {
        var isCounted = true
        try {
            while (true) {
                // Clears the interrupt status, which the previous callback may have left set.
                Thread.interrupted()
                val task = next()
                if (task == null) {
                    isCounted = false
                    return
                }
                task.run()
            }
        } finally {
            // The thread ends by an error, such as a lack of memory in which even logging fails. The thread is no
            // longer counted, so that another one can replace it.
            if (isCounted) monitor.withLock { workers-- }
        }
    }

    /** Runs [wait]. Meanwhile the calling thread is not counted, and another one takes its place if tasks wait. */
    private inline fun <R> withReplacement(wait: () -> R): R {
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

    /** Returns the next task, or null if the worker must end. */
    private fun next(): Runnable? =
        monitor.withLock {
            if (workers > MAX_THREADS) {
                // Another thread replaced this one while it waited for a reply.
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
                // Ignores the interrupt: only a callback that kept a reference to this thread can have caused it.
            } finally {
                idle--
            }
            waiting.removeFirstOrNull().also { if (it == null) workers-- else lastStart = System.nanoTime() }
        }

    private fun Executor.executeOrRun(task: Once) {
        try {
            execute(task)
        } catch (failure: Throwable) {
            if (failure !is RejectedExecutionException) {
                Log.error("the callback executor failed; the callback runs without it", failure)
            }
            // Runs the task here, because an executor that fails or is shut down must not suppress the notification of
            // a lost lease.
            task.run()
        }
    }

    private class Worker(name: String, val pool: Callbacks) : Thread(null, null, name, 0, false) {
        init {
            isDaemon = true
        }

        override fun run() = pool.work()
    }

    /** A task that runs at most once and throws nothing. */
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
        /** The largest number of busy threads for the callbacks of one client. */
        const val MAX_THREADS = 64
        private val IDLE_NANOS = TimeUnit.SECONDS.toNanos(5)
        private val BLOCKED_NANOS = TimeUnit.SECONDS.toNanos(1)
        private val WARN_NANOS = TimeUnit.MINUTES.toNanos(1)
        private val count = AtomicInteger()

        /** Whether the calling thread is a callback thread, which must be replaced while it waits. */
        val isHere: Boolean
            get() = Thread.currentThread() is Worker

        /** Runs [wait]. If the calling thread is a callback thread, another one takes its place meanwhile. */
        fun <R> whileWaiting(wait: () -> R): R {
            val worker = Thread.currentThread() as? Worker ?: return wait()
            return worker.pool.withReplacement(wait)
        }
    }
}

package io.github.steadlock.internal

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/**
 * Has [work] do one item after another, on a daemon thread that ends when there are none for a while: what it calls is
 * a user's, which may block or throw, and neither is to reach the thread that has an item.
 *
 * While [most] items wait for it, further ones are dropped, until half of them are done. Where they are missing, it
 * gets what [missing] makes of their number.
 */
internal open class WorkThread<T>(
    private val name: String,
    private val most: Int,
    private val missing: (Long) -> T,
    private val work: (T) -> Unit,
) {
    private val monitor = ReentrantLock()
    private val added = monitor.newCondition()
    private val drained = monitor.newCondition()
    private val items = ArrayDeque<T>()
    private var dropped = 0L
    private var isRunning = false
    private var isWorking = false

    fun add(item: T) =
        monitor.withLock {
            if (dropped > 0 || items.size == most) {
                dropped++
            } else {
                items += item
                added.signal()
            }
            if (!isRunning) start()
        }

    /** Waits until there is nothing to do, [limitMs] at the most; an interrupt ends it, and is kept. */
    fun flush(limitMs: Long) =
        monitor.withLock {
            var left = TimeUnit.MILLISECONDS.toNanos(limitMs)
            try {
                while ((isWorking || items.isNotEmpty()) && left > 0) {
                    left = drained.awaitNanos(left)
                }
            } catch (_: InterruptedException) {
                Thread.currentThread().interrupt()
            }
        }

    private fun start() {
        try {
            val thread = Thread(null, ::run, name, 0, false)
            thread.isDaemon = true
            // It may serve all clients: that of the program that has the first item is not to be kept by it.
            thread.contextClassLoader = WorkThread::class.java.classLoader
            thread.start()
            isRunning = true
        } catch (_: Throwable) {
            // The items wait for the next one, with which there may be a thread.
        }
    }

    private fun run() {
        while (true) {
            // What a user's code left behind is not for the next item.
            Thread.interrupted()
            val item = next() ?: return
            runCatching { work(item) }
        }
    }

    /** The next item, or null if the thread is to end. */
    private fun next(): T? =
        monitor.withLock {
            isWorking = false
            sayDropped()
            if (items.isEmpty()) drained.signalAll()
            try {
                var left = IDLE_NANOS
                while (items.isEmpty() && left > 0) {
                    left = added.awaitNanos(left)
                }
            } catch (_: InterruptedException) {
                // Nobody but a stray piece of work can mean this thread; the next item starts another.
            }
            items.removeFirstOrNull().also {
                isWorking = it != null
                isRunning = it != null
            }
        }

    private fun sayDropped() {
        if (dropped > 0 && items.size <= most / 2) {
            items += missing(dropped)
            dropped = 0
        }
    }

    private companion object {
        val IDLE_NANOS = TimeUnit.SECONDS.toNanos(5)
    }
}

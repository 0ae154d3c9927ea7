package io.github.steadlock.internal

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/**
 * A daemon thread that runs [work] for one item after another, and ends when there are no items for a while. The work
 * is the program's code, which may block or throw; neither must affect the thread that adds an item.
 *
 * When [capacity] items wait, further ones are dropped until half of the waiting items are done. In place of the
 * dropped items, [work] gets one item that [droppedItem] makes from their number.
 */
internal open class WorkThread<T>(
    private val name: String,
    private val capacity: Int,
    private val droppedItem: (Long) -> T,
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
            if (dropped > 0 || items.size == capacity) {
                dropped++
            } else {
                items += item
                added.signal()
            }
            if (!isRunning) start()
        }

    /**
     * Waits until all items are done, at most [limitMs]. An interrupt ends the wait, and the interrupt status stays
     * set.
     */
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
            // The thread can serve all clients, so it must not keep the class loader of the program that adds the first
            // item.
            thread.contextClassLoader = WorkThread::class.java.classLoader
            thread.start()
            isRunning = true
        } catch (_: Throwable) {
            // The items stay queued. The next added item tries again to start a thread.
        }
    }

    private fun run() {
        while (true) {
            // Clears the interrupt status, which the program's code may have left set.
            Thread.interrupted()
            val item = next() ?: return
            runCatching { work(item) }
        }
    }

    /** Returns the next item, or null if the thread must end. */
    private fun next(): T? =
        monitor.withLock {
            isWorking = false
            reportDropped()
            if (items.isEmpty()) drained.signalAll()
            try {
                var left = IDLE_NANOS
                while (items.isEmpty() && left > 0) {
                    left = added.awaitNanos(left)
                }
            } catch (_: InterruptedException) {
                // Only code of the program that kept a reference to this thread can have caused the interrupt. If no
                // item waits, the thread ends, and the next item starts another one.
            }
            items.removeFirstOrNull().also {
                isWorking = it != null
                isRunning = it != null
            }
        }

    private fun reportDropped() {
        if (dropped > 0 && items.size <= capacity / 2) {
            items += droppedItem(dropped)
            dropped = 0
        }
    }

    private companion object {
        val IDLE_NANOS = TimeUnit.SECONDS.toNanos(5)
    }
}

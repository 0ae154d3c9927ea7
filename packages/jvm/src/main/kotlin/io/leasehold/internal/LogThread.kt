package io.leasehold.internal

import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.ReentrantLock
import kotlin.concurrent.withLock

/**
 * Has [write] write lines one after another, on a daemon thread that ends when there are none for a while: a logger
 * may block or throw, and neither is to reach whoever has a line to tell.
 *
 * While [MOST] lines wait for it, further ones are dropped, until half of them are written. Where they are missing, a
 * line says how many.
 */
internal class LogThread(private val write: (LogLine) -> Unit) {
    private val monitor = ReentrantLock()
    private val added = monitor.newCondition()
    private val drained = monitor.newCondition()
    private val lines = ArrayDeque<LogLine>()
    private var dropped = 0L
    private var isRunning = false
    private var isWriting = false

    fun add(line: LogLine) =
        monitor.withLock {
            if (dropped > 0 || lines.size == MOST) {
                dropped++
            } else {
                lines += line
                added.signal()
            }
            if (!isRunning) start()
        }

    /** Waits until there is nothing to write, [limitMs] at the most; an interrupt ends it, and is kept. */
    fun flush(limitMs: Long) =
        monitor.withLock {
            var left = TimeUnit.MILLISECONDS.toNanos(limitMs)
            try {
                while ((isWriting || lines.isNotEmpty()) && left > 0) {
                    left = drained.awaitNanos(left)
                }
            } catch (_: InterruptedException) {
                Thread.currentThread().interrupt()
            }
        }

    private fun start() {
        try {
            val thread = Thread(null, ::work, "leasehold-log", 0, false)
            thread.isDaemon = true
            // It serves all clients: that of the program that has the first line is not to be kept by it.
            thread.contextClassLoader = LogThread::class.java.classLoader
            thread.start()
            isRunning = true
        } catch (_: Throwable) {
            // The lines wait for the next one, with which there may be a thread.
        }
    }

    private fun work() {
        while (true) {
            // What a logger left behind is not for the next line.
            Thread.interrupted()
            val line = next() ?: return
            runCatching { write(line) }
        }
    }

    /** The next line, or null if the thread is to end. */
    private fun next(): LogLine? =
        monitor.withLock {
            isWriting = false
            sayDropped()
            if (lines.isEmpty()) drained.signalAll()
            try {
                var left = IDLE_NANOS
                while (lines.isEmpty() && left > 0) {
                    left = added.awaitNanos(left)
                }
            } catch (_: InterruptedException) {
                // Nobody but a stray logger can mean this thread; the next line starts another.
            }
            lines.removeFirstOrNull().also {
                isWriting = it != null
                isRunning = it != null
            }
        }

    private fun sayDropped() {
        if (dropped > 0 && lines.size <= MOST / 2) {
            lines += LogLine("warn", "$dropped lines are missing here, as the logger was too slow for them")
            dropped = 0
        }
    }

    companion object {
        /** The most lines that wait. */
        const val MOST = 1_000
        private val IDLE_NANOS = TimeUnit.SECONDS.toNanos(5)
    }
}

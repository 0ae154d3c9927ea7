package io.github.steadlock

import io.github.steadlock.internal.Log
import java.util.concurrent.CopyOnWriteArrayList
import java.util.logging.Handler
import java.util.logging.LogRecord
import java.util.logging.Logger

/** Collects the log lines of the library until it is closed. */
class Warnings : AutoCloseable {
    private val messages = CopyOnWriteArrayList<String>()
    private val logger = Logger.getLogger("io.github.steadlock")
    private val handler =
        object : Handler() {
            override fun publish(record: LogRecord) {
                messages += record.message
            }

            override fun flush() = Unit

            override fun close() = Unit
        }

    init {
        logger.addHandler(handler)
    }

    fun any(condition: (String) -> Boolean): Boolean = count(condition) > 0

    fun count(condition: (String) -> Boolean): Int {
        Log.flush(1_000)
        return messages.count(condition)
    }

    override fun close() = logger.removeHandler(handler)
}

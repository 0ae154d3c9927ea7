package io.github.steadlock.internal

import org.slf4j.Logger
import org.slf4j.LoggerFactory

/**
 * The log of the library. No function here throws, and only [flush] waits for the program's logger. Works with SLF4J
 * 1.7 too, which a program has if an older library comes first in its build.
 */
internal object Log {
    private val logger: Logger? = runCatching { LoggerFactory.getLogger("io.github.steadlock") }.getOrNull()
    private val writer: LogWriter? by lazy { logger?.let(::writerOf) }
    private val thread = LogThread { writer?.write(it) }

    /** Returns the core's name of the lowest level that the logger writes, or null if it writes none. */
    fun wantedLevel(): String? = runCatching { logger?.lowestLevel() }.getOrNull()

    fun write(line: LogLine) = thread.add(line)

    fun warn(message: String) = write(LogLine("warn", message))

    fun error(message: String, failure: Throwable) = write(LogLine("error", message, failure = failure))

    /**
     * Waits until the lines so far are written, at most [limitMs]. An interrupt ends the wait, and the interrupt status
     * stays set.
     */
    fun flush(limitMs: Long) = thread.flush(limitMs)

    private fun Logger.lowestLevel(): String? =
        when {
            isDebugEnabled -> "debug"
            isInfoEnabled -> "info"
            isWarnEnabled -> "warn"
            isErrorEnabled -> "error"
            else -> null
        }

    private fun writerOf(logger: Logger): LogWriter =
        try {
            FieldWriter(logger).apply { probe() }
        } catch (_: LinkageError) {
            PlainWriter(logger)
        }
}

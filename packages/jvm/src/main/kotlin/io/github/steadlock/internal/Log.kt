package io.github.steadlock.internal

import org.slf4j.Logger
import org.slf4j.LoggerFactory

/**
 * Where the library says what goes wrong. Nothing here throws or waits for the user's logger, whatever that does, and
 * SLF4J may be 1.7, as it is where an older library comes first in the program's build.
 */
internal object Log {
    private val logger: Logger? = runCatching { LoggerFactory.getLogger("io.github.steadlock") }.getOrNull()
    private val writer: LogWriter? by lazy { logger?.let(::writerOf) }
    private val thread = LogThread { writer?.write(it) }

    /** The core's name of the level from which on it is to tell, or null if nobody would read it. */
    fun wantedLevel(): String? = runCatching { logger?.lowestLevel() }.getOrNull()

    fun write(line: LogLine) = thread.add(line)

    fun warn(message: String) = write(LogLine("warn", message))

    fun error(message: String, failure: Throwable) = write(LogLine("error", message, failure = failure))

    /** Waits until the lines so far are written, [limitMs] at the most; an interrupt ends it, and is kept. */
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

package io.github.steadlock.internal

import org.slf4j.Logger
import org.slf4j.event.Level
import org.slf4j.spi.LoggingEventBuilder

/** A line of the log. [level] is the core's name of the level. */
internal class LogLine(
    val level: String,
    val message: String,
    val fields: Map<String, Any> = emptyMap(),
    val failure: Throwable? = null,
)

/** A writer of lines to a logger. */
internal interface LogWriter {
    fun write(line: LogLine)
}

/**
 * The writer for SLF4J 2.0, which writes the fields as key-value pairs. Only this class uses the API that is new in
 * 2.0.
 */
internal class FieldWriter(private val logger: Logger) : LogWriter {
    /** Throws a [LinkageError] if SLF4J is older. */
    fun probe() {
        logger.atLevel(Level.ERROR).addKeyValue("event", "probe")
    }

    override fun write(line: LogLine) {
        var event: LoggingEventBuilder = logger.atLevel(Level.valueOf(line.level.uppercase()))
        line.fields.forEach { (name, value) -> event = event.addKeyValue(name, value) }
        line.failure?.let { event = event.setCause(it) }
        event.log(line.message)
    }
}

/** The writer for SLF4J 1.7, which leaves out the fields, because the message has their content too. */
internal class PlainWriter(private val logger: Logger) : LogWriter {
    override fun write(line: LogLine) =
        when (line.level) {
            "debug" -> logger.debug(line.message, line.failure)
            "info" -> logger.info(line.message, line.failure)
            "warn" -> logger.warn(line.message, line.failure)
            else -> logger.error(line.message, line.failure)
        }
}

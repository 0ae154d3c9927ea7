package io.github.steadlock.internal

import org.slf4j.Logger
import org.slf4j.event.Level
import org.slf4j.spi.LoggingEventBuilder

/** A line of the log. [level] is the core's word for it. */
internal class LogLine(
    val level: String,
    val message: String,
    val fields: Map<String, Any> = emptyMap(),
    val failure: Throwable? = null,
)

/** Gives lines to a logger. */
internal interface LogWriter {
    fun write(line: LogLine)
}

/** With the fields as key-value pairs. Only this class knows what SLF4J has since 2.0. */
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

/** As SLF4J 1.7 can: the message says it all, the fields are left out. */
internal class PlainWriter(private val logger: Logger) : LogWriter {
    override fun write(line: LogLine) =
        when (line.level) {
            "debug" -> logger.debug(line.message, line.failure)
            "info" -> logger.info(line.message, line.failure)
            "warn" -> logger.warn(line.message, line.failure)
            else -> logger.error(line.message, line.failure)
        }
}

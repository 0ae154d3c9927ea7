package io.leasehold.internal

import org.slf4j.Logger
import org.slf4j.LoggerFactory
import org.slf4j.event.Level

/** Where the library says what goes wrong. */
internal val log: Logger = LoggerFactory.getLogger("io.leasehold")

/** The core's name of the level from which on it is to tell, or null if nobody would read it. */
internal fun wantedLevel(): String? = LEVELS.entries.firstOrNull { log.isEnabledForLevel(it.value) }?.key

/** Something that the core observed. */
internal class Observed(val level: String, val message: String, val fields: Map<String, Any>)

/** Hands it to the logger. What a logger throws is not to end the thread that fetches events. */
internal fun write(observed: Observed) {
    runCatching {
        val event = log.atLevel(LEVELS.getValue(observed.level))
        observed.fields.forEach { (name, value) -> event.addKeyValue(name, value) }
        event.log(observed.message)
    }
}

/** The core's levels, the lowest first. */
private val LEVELS = mapOf("debug" to Level.DEBUG, "info" to Level.INFO, "warn" to Level.WARN, "error" to Level.ERROR)

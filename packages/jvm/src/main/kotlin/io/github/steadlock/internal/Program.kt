package io.github.steadlock.internal

import java.nio.file.Path

/**
 * Returns the simple name of the main class, or the file name of the jar; null if unknown. Leaves out the arguments.
 */
internal fun programName(command: String? = System.getProperty("sun.java.command")): String? {
    // A jar's path can have spaces, and ends with `.jar`. The name of a main class has no spaces, so it ends at the
    // first one.
    val jar = command?.let { Regex("^.*?\\.jar(?= |$)").find(it)?.value }
    val name = jar?.let { Path.of(it).fileName?.toString() } ?: command?.substringBefore(' ')?.substringAfterLast('.')
    return name?.takeIf(String::isNotBlank)
}

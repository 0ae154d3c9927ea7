package io.github.steadlock.internal

import java.nio.file.Path

/** The main class's simple name, or the jar's file name; null if it is not known. Never its arguments. */
internal fun programName(command: String? = System.getProperty("sun.java.command")): String? {
    // A jar's path may have spaces; where it ends is known, unlike where arguments begin after a class.
    val jar = command?.let { Regex("^.*?\\.jar(?= |$)").find(it)?.value }
    val name = jar?.let { Path.of(it).fileName?.toString() } ?: command?.substringBefore(' ')?.substringAfterLast('.')
    return name?.takeIf(String::isNotBlank)
}

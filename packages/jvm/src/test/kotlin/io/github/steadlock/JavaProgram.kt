package io.github.steadlock

import java.nio.file.Path

/** The class path of this JVM. */
val testClassPath: String
    get() = System.getProperty("surefire.test.class.path") ?: System.getProperty("java.class.path")

/** Returns a process that will run a class of the tests in another JVM. It writes errors to the stream of this JVM. */
fun javaProgram(
    name: String,
    vararg arguments: String,
    options: List<String> = emptyList(),
    classPath: String = testClassPath,
): ProcessBuilder {
    val java = Path.of(System.getProperty("java.home"), "bin", "java").toString()
    val command = listOf(java, "--enable-native-access=ALL-UNNAMED") + options + listOf("-cp", classPath, name)
    return ProcessBuilder(command + arguments).redirectError(ProcessBuilder.Redirect.INHERIT)
}

package io.github.steadlock

import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.condition.EnabledOnOs
import org.junit.jupiter.api.condition.OS
import java.nio.file.Files
import java.nio.file.Path
import java.util.concurrent.TimeUnit

/** Tests a JVM that gets no more threads, from outside: the test starts a JVM that runs [ThreadsProgram]. */
@EnabledOnOs(OS.LINUX)
class ThreadsTest {
    private var program: Process? = null

    @AfterEach
    fun close() {
        program?.destroyForcibly()?.waitFor()
    }

    @Test
    fun `without threads a client works, new clients are refused, and callbacks are delayed`() {
        val program = start()
        program.expect("ready")
        // The stack of a thread does not fit into this limit. A limit on the number of threads would not apply to root.
        limitMemory(program, "${virtualBytes(program) + STACK_BYTES / 2}")
        program.resume()
        program.expect("refused")
        limitMemory(program, "unlimited")
        program.resume()
        program.expect("recovered")
        assertTrue(program.waitFor(10, TimeUnit.SECONDS))
        assertEquals(0, program.exitValue())
    }

    private fun start(): Process {
        val options = listOf("-Xlog:disable", "-Xmx64m", "-Xss${STACK_BYTES shr 20}m")
        return javaProgram("io.github.steadlock.ThreadsProgram", "memory://", options = options)
            .start()
            .also { program = it }
    }

    private fun Process.expect(line: String) = assertEquals(line, inputReader().readLine())

    private fun Process.resume() = outputWriter().apply { newLine() }.flush()

    private fun virtualBytes(program: Process): Long {
        val line = Files.readAllLines(Path.of("/proc/${program.pid()}/status")).first { it.startsWith("VmSize:") }
        return line.filter(Char::isDigit).toLong() * 1024
    }

    private fun limitMemory(program: Process, most: String) {
        val command = listOf("prlimit", "--pid", "${program.pid()}", "--as=$most:")
        assertEquals(0, ProcessBuilder(command).inheritIO().start().waitFor())
    }

    private companion object {
        /** The stack of each thread of Java. */
        const val STACK_BYTES = 1L shl 30
    }
}

package io.github.steadlock

import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Tag
import org.junit.jupiter.api.Test
import java.util.concurrent.TimeUnit

/** Tests how a JVM ends, from outside: each test starts a JVM that runs [ExitProgram]. */
@Tag("timing")
class ExitTest {
    private val server = RedisServer()
    private val programs = mutableListOf<Process>()

    @AfterEach
    fun close() {
        programs.forEach { it.destroyForcibly().waitFor() }
        server.close()
    }

    @Test
    fun `a program releases its lock at exit`() {
        val program = start("end-holding")
        assertEndsInTime(program)
        assertEquals(emptySet<String>(), server.ask { it.keys("held*") })
    }

    @Test
    fun `an idle client does not keep the JVM alive`() {
        assertEndsInTime(start("idle"))
    }

    @Test
    fun `a client without its server does not keep the JVM alive`() {
        val program = start("end-on-input")
        server.pause()
        program.outputStream.close()
        assertEndsInTime(program)
        server.resume()
    }

    @Test
    fun `a lock without a thread expires with its lease`() {
        val program = start("end-holding-async")
        assertEndsInTime(program)
        assertTrue(server.ask { it.pttl("held") } in 1..1_000)
    }

    @Test
    fun `a service that drains after SIGTERM keeps the locks of its live threads`() {
        val program = start("drain")
        program.toHandle().destroy()
        Thread.sleep(2_500)
        assertTrue(program.isAlive, "it drains for 3 s")
        assertTrue(server.ask { it.exists("held-live") }, "a live thread keeps its lock for longer than two leases")
        assertTrue(program.waitFor(3, TimeUnit.SECONDS))
        assertEquals("drained, still valid: true", program.inputReader().readLine())
        awaitTrue("the lock expires after the end of the process", 1_600) { !server.ask { it.exists("held-live") } }
    }

    /** Starts the program and waits until it prints `ready`. */
    private fun start(how: String): Process {
        val program = javaProgram("io.github.steadlock.ExitProgram", how, server.url).start()
        programs.add(program)
        assertEquals("ready", program.inputReader().readLine())
        return program
    }

    private fun assertEndsInTime(program: Process) {
        val took = millis { assertTrue(program.waitFor(10, TimeUnit.SECONDS), "the JVM hangs at its end") }
        assertTrue(took < END_MS, "took $took ms")
    }

    private companion object {
        const val END_MS = 500L
    }
}

package io.github.steadlock

import io.github.steadlock.internal.programName
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration
import java.time.Instant

/** Tests what clients publish about their program and machine. */
class ClientInfoTest {
    private fun connect(change: SteadlockBuilder.() -> SteadlockBuilder) =
        Steadlock.builder().url("memory://client-info").change().connect()

    private fun assertIsThisProcess(info: ClientInfo?, label: String) {
        assertEquals(ProcessHandle.current().pid(), info!!.pid)
        assertTrue(info.host.isNotEmpty())
        assertEquals(programName(), info.program)
        assertEquals("java ${System.getProperty("java.version")}", info.language)
        assertTrue(Duration.between(info.since, Instant.now()) < Duration.ofMinutes(30), "${info.since}")
        assertEquals(label, info.label)
    }

    @Test
    fun `the holder has its program's name, also in LockTimeout`() {
        connect { clientLabel("blue") }.use { client ->
            connect { this }.use { other ->
                client.lock("a").withLock {
                    assertIsThisProcess(other.lock("a").holder()!!.client, "blue")
                    val bounded = other.lock("a", LockOptions.DEFAULT.withWait(Duration.ofMillis(250)))
                    val refused = assertThrows(LockTimeoutException::class.java) { bounded.lock() }
                    assertTrue("(blue), pid ${ProcessHandle.current().pid()} on " in refused.message!!, refused.message)
                    assertIsThisProcess(refused.holder!!.client, "blue")
                }
            }
        }
    }

    @Test
    fun `client information can be switched off`() {
        connect { clientInfo(false) }.use { client ->
            connect { this }.use { other ->
                client.lock("b").withLock { assertNull(other.lock("b").holder()!!.client) }
            }
        }
    }

    @Test
    fun `an invalid label is refused`() {
        for (label in listOf("a\nb", "x".repeat(201))) {
            assertThrows(InvalidArgumentException::class.java) { connect { clientLabel(label) } }
        }
        assertThrows(InvalidArgumentException::class.java) { connect { clientInfo(false).clientLabel("x") } }
    }

    @Test
    fun `a program's name has no folder and no arguments`() {
        assertEquals("Main", programName("com.shop.Main --password secret.jar2"))
        assertEquals("orders.jar", programName("/opt/my shop/orders.jar --password secret"))
        assertEquals("orders.jar", programName("orders.jar"))
        assertNull(programName(null))
        assertNull(programName(""))
    }

    @Test
    fun `chosen queues are counted`() {
        connect { metrics().metricsQueues("report") }.use { client ->
            client.fairLock("report").withLock {}
            while ("steadlock_fair_queue{queue=\"report\"} 0" !in client.metrics()) {
                client.lock("c").isLocked
            }
        }
        assertThrows(InvalidArgumentException::class.java) { connect { metricsQueues("report") } }
    }
}

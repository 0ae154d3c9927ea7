package io.github.steadlock

import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration

/**
 * Tests `addressMap` with a node that announces an address at which no server listens. The tests in
 * `core/client/tests/addresses` cover the rest.
 */
class AddressesTest {
    @Test
    fun `a map translates announced addresses`() {
        works(builder().addressMap(mapOf(ANNOUNCED to HERE)))
        val lost = assertThrows(UnavailableException::class.java) { works(builder(), SHORT) }
        assertTrue(ANNOUNCED in checkNotNull(lost.message), lost.message)
    }

    @Test
    fun `an invalid address map is an invalid argument`() {
        for (bad in listOf(mapOf("10.0.0.1" to "localhost:1"), mapOf("" to "h:1"), mapOf("h:1" to "redis://h:1"))) {
            val refused = assertThrows(InvalidArgumentException::class.java) { builder().addressMap(bad).connect() }
            assertTrue("address_map" in checkNotNull(refused.message), refused.message)
        }
        assertThrows(InvalidArgumentException::class.java) {
            Steadlock.builder().url("memory://").addressMap(mapOf("h:1" to "h:2")).connect()
        }
    }

    private fun builder() = Steadlock.builder().url("redis+cluster://$HERE")

    private fun works(builder: SteadlockBuilder, wait: Duration = Duration.ofSeconds(10)) =
        // The connect timeout is shorter than the wait, so that the error contains the failed connection.
        builder.connectTimeout(wait.dividedBy(2)).connect().use { client ->
            val lock = client.lock("a", LockOptions.DEFAULT.withWait(wait))
            lock.lock()
            lock.unlock()
        }

    private companion object {
        const val ANNOUNCED = "10.255.0.1:7000"
        const val SLOTS = 16_384
        val SHORT: Duration = Duration.ofSeconds(4)

        val node =
            RedisServer(
                *arrayOf("--cluster-enabled", "yes", "--cluster-port", "${freePort()}"),
                *arrayOf("--cluster-announce-ip", "10.255.0.1", "--cluster-announce-port", "7000"),
            )
        val HERE = "127.0.0.1:${node.port}"

        init {
            node.ask { it.clusterAddSlots(*IntArray(SLOTS) { slot -> slot }) }
            awaitTrue("the cluster is served") { node.ask { it.clusterInfo() }.startsWith("cluster_state:ok") }
        }

        @JvmStatic
        @AfterAll
        fun stop() = node.close()
    }
}

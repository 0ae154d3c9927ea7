package io.leasehold

import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit

/** Clients with circuit breakers while their server is unavailable. */
class OutageTest {
    private fun builder(url: String): LeaseholdBuilder =
        Leasehold
            .builder()
            .url(url)
            .commandTimeout(Duration.ofMillis(300))
            .breaker(3, Duration.ofMillis(400))

    private fun tried(client: LeaseholdClient): LeaseholdException? =
        runCatching { client.lock("canary", FAILING).withLock { } }.exceptionOrNull() as LeaseholdException?

    /** Asks until the breaker is open. */
    private fun awaitOpen(client: LeaseholdClient) =
        awaitTrue("the breaker opens", SOON_MS) { tried(client)?.message.orEmpty().contains("circuit breaker") }

    /** Asks until the server grants again. */
    private fun awaitClosed(client: LeaseholdClient) =
        awaitTrue("the breaker closes", SOON_MS) { tried(client) == null }

    @Test
    fun `while a server hangs acquisitions fail at once and then go on`() {
        RedisServer().use { server ->
            builder(server.url).connect().use { client ->
                server.pause()
                awaitOpen(client)
                val failed = assertThrows(UnavailableException::class.java) { client.lock("door").lock() }
                assertTrue(failed.isRetryable && !failed.isSkipped, failed.message)
                assertThrows(UnavailableException::class.java) { client.lock("door").tryLock() }
                assertThrows(UnavailableException::class.java) { client.lock("door").isLocked }
                server.resume()
                awaitClosed(client)
            }
        }
    }

    @Test
    fun `a degraded lease excludes others of its client until the server is back`() {
        RedisServer().use { server ->
            builder(server.url).onUnavailable(OnUnavailable.LOCAL).connect().use { client ->
                val lock = client.lock("door")
                lock.withLock { assertFalse(lock.held.isDegraded) }
                server.kill()
                awaitOpen(client)
                lock.lock()
                val lease = lock.held
                assertTrue(lease.isDegraded && lease.isValid && lease.token == null, "$lease")
                assertFalse(onAnotherThread { lock.tryLock() })
                server.startAgain()
                awaitClosed(client)
                assertFalse(onAnotherThread { lock.tryLock() })
                lock.unlock()
                lock.withLock { assertTrue(!lock.held.isDegraded && lock.held.token != null) }
            }
        }
    }

    @Test
    fun `what is skipped runs no block, and each call says so in its own way`() {
        RedisServer().use { server ->
            builder(server.url).onUnavailable(OnUnavailable.SKIP).connect().use { client ->
                server.pause()
                awaitOpen(client)
                val lock = client.lock("door")
                assertFalse(lock.tryLock())
                assertFalse(lock.tryLock(1, TimeUnit.SECONDS))
                var ran = false
                val refusals =
                    listOf<() -> Unit>(
                        { lock.lock() },
                        { lock.lockInterruptibly() },
                        { lock.withLock { ran = true } },
                        { runBlocking { client.withLock("door") { ran = true } } },
                    ).map { call -> assertThrows(UnavailableException::class.java) { call() } }
                assertTrue(refusals.all { it.isSkipped && it.message.orEmpty().contains("skipped") }, "$refusals")
                val stage = lock.lockAsync().toCompletableFuture()
                val cause = assertThrows(ExecutionException::class.java) { stage.get() }.cause
                assertTrue((cause as UnavailableException).isSkipped)
                assertFalse(ran)
                server.resume()
            }
        }
    }

    @Test
    fun `what is wanted in an outage needs a breaker, which has bounds`() {
        Leasehold.connect("memory://").use { client ->
            val lock = client.lock("door", LockOptions.DEFAULT.onUnavailable(OnUnavailable.SKIP))
            val failed = assertThrows(InvalidArgumentException::class.java) { lock.lock() }
            assertTrue(failed.message.orEmpty().contains("circuit breaker"), failed.message)
            assertFalse(failed.isSkipped)
        }
        for (failures in listOf(-1, 0, 1_000_001)) {
            val wrong = Leasehold.builder().url("memory://").breaker(failures, Duration.ofSeconds(1))
            assertThrows(InvalidArgumentException::class.java) { wrong.connect() }
        }
        builder("memory://").connect().use { client ->
            client.lock("door").lock()
            assertFalse(client.lock("door").held.isDegraded)
            assertNull(client.lock("door").held.lostReason)
            assertEquals(1, client.lock("door").holdCount)
        }
    }

    private companion object {
        const val SOON_MS = 20_000L
        val FAILING: LockOptions = LockOptions.DEFAULT.onUnavailable(OnUnavailable.FAIL)
    }
}

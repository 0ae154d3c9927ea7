package io.github.steadlock

import kotlinx.coroutines.delay
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertInstanceOf
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Tag
import org.junit.jupiter.api.Test
import redis.clients.jedis.Jedis
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit

/**
 * Tests that losses are reported in time, and that other locks stay valid. The client's lease is 1 s, so the client
 * notices a loss within 833 ms.
 */
@Tag("timing")
class LossTest {
    private val server = RedisServer()
    private val client = Steadlock.builder().url(server.url).lease(Duration.ofSeconds(1)).connect()
    private val lock = client.lock("lost")

    @AfterEach
    fun close() {
        client.close()
        server.close()
    }

    @Test
    fun `a deleted record is reported in time`() = assertLossReportedAfter(LostReason.REMOVED) { it.del("lost") }

    @Test
    fun `a flushed server is reported in time`() = assertLossReportedAfter(LostReason.REMOVED) { it.flushAll() }

    @Test
    fun `a record of another owner is reported in time and not changed`() {
        assertLossReportedAfter(LostReason.STOLEN) { steal(it) }
        assertEquals(mapOf("thief" to "1"), server.ask { it.hgetAll("lost") })
    }

    @Test
    fun `a stopped server is reported before the record expires`() {
        lock.lock()
        val loss = lossOf(lock.held)
        val left = server.ask { it.pttl("lost") }
        server.pause()
        assertEquals(LostReason.EXPIRED, loss.get(left, TimeUnit.MILLISECONDS))
        server.resume()
    }

    @Test
    fun `the end of a fixed lease is reported before its record expires`() {
        val loss = lossOf(lock.lock(Duration.ofSeconds(1)))
        val left = server.ask { it.pttl("lost") }
        assertEquals(LostReason.EXPIRED, loss.get(left, TimeUnit.MILLISECONDS))
        assertEquals(0, lock.holdCount)
        assertTrue(lock.withLock { lock.held.isValid })
    }

    @Test
    fun `a hold ends after maxHold`() {
        client.lock("lost", LockOptions.DEFAULT.withMaxHold(Duration.ofMillis(500))).lock()
        assertEquals(LostReason.MAX_HOLD, lossOf(lock.held).get(1, TimeUnit.SECONDS))
    }

    @Test
    fun `releasing a lost lease returns the reason`() {
        val expired = lock.lock(Duration.ofSeconds(10))
        server.ask { it.del("lost") }
        assertEquals(ReleaseOutcome.EXPIRED, expired.release())
        val stolen = lock.lock(Duration.ofSeconds(10))
        server.ask(::steal)
        assertEquals(ReleaseOutcome.STOLEN, stolen.release())
        assertThrows(LockLostException::class.java) { stolen.close() }
    }

    @Test
    fun `unlocking a lost lock throws and has no effect on the record`() {
        lock.lock(Duration.ofSeconds(10))
        server.ask(::steal)
        val thrown = assertThrows(LockLostException::class.java) { lock.unlock() }
        assertEquals(LostReason.STOLEN, thrown.reason)
        assertEquals("its record is another owner's", thrown.causeText)
        val text = "release of lock \"lost\": the lease was lost: its record is another owner's; check "
        assertTrue(thrown.message.orEmpty().startsWith(text), thrown.message)
        assertTrue(server.ask { it.exists("lost") })
        assertFalse(lock.isHeldByCurrentThread)
    }

    @Test
    fun `withLock throws LockLost after a loss, unless its body throws`() {
        assertThrows(LockLostException::class.java) { lock.withLock { server.ask { it.del("lost") } } }
        val thrown =
            assertThrows(IllegalStateException::class.java) {
                lock.withLock<Unit> {
                    server.ask { it.del("lost") }
                    error("the body's own")
                }
            }
        assertInstanceOf(LockLostException::class.java, thrown.suppressed.single())
    }

    @Test
    fun `a loss cancels a coroutine with LockLost`() {
        val took =
            millis {
                assertThrows(LockLostException::class.java) {
                    runBlocking {
                        client.withLock("lost") {
                            server.ask { it.del("lost") }
                            delay(10_000)
                        }
                    }
                }
            }
        assertTrue(took < REPORTED_WITHIN_MS + 200, "took $took ms")
    }

    @Test
    fun `a listener added after the loss is called at once, a closed one never`() {
        val lease = lock.lock(Duration.ofSeconds(1))
        val closed = CompletableFuture<LostReason>()
        lease.onLost(closed::complete).close()
        lossOf(lease).get(2, TimeUnit.SECONDS)
        assertEquals(LostReason.EXPIRED, lossOf(lease).get(1, TimeUnit.SECONDS))
        assertFalse(closed.isDone)
    }

    @Test
    fun `the watchdog renews locks for five times their lease`() {
        val held = List(100) { client.lock("kept-$it").apply { lock() } }
        val leases = held.map { it.held }
        Thread.sleep(5_000)
        leases.forEach { assertTrue(it.isValid, "$it ${it.lostReason}") }
        held.forEach { it.unlock() }
        leases.forEach { assertNull(it.lostReason) }
    }

    @Test
    fun `nothing is renewed after an unlock`() {
        lock.withLock { }
        val calls = server.scriptCalls()
        Thread.sleep(2_000)
        assertEquals(calls, server.scriptCalls())
    }

    @Test
    fun `tryLock on a stopped server ends within the command timeout`() {
        server.pause()
        val took = millis { assertThrows(UnavailableException::class.java) { lock.tryLock() } }
        assertTrue(took in 2_500..3_500, "took $took ms")
        server.resume()
    }

    @Test
    fun `a bounded wait on a stopped server ends in time`() {
        server.pause()
        val took = millis { assertThrows(UnavailableException::class.java) { lock.tryLock(Duration.ofMillis(500)) } }
        assertTrue(took in 450..550, "took $took ms")
        server.resume()
    }

    @Test
    fun `closing without the server takes at most half a second`() {
        lock.lock()
        server.pause()
        val took = millis { client.close() }
        assertTrue(took < 700, "took $took ms")
        server.resume()
    }

    private fun assertLossReportedAfter(reason: LostReason, interfere: (Jedis) -> Unit) {
        lock.lock()
        val lease = lock.held
        val loss = lossOf(lease)
        val took =
            millis {
                server.ask(interfere)
                assertEquals(reason, loss.get(5, TimeUnit.SECONDS))
            }
        assertTrue(took < REPORTED_WITHIN_MS, "reported after $took ms")
        assertEquals(reason, lease.lostReason)
        assertFalse(lease.isValid || lock.isHeldByCurrentThread)
        assertEquals(0, lock.holdCount)
        assertEquals(reason, assertThrows(LockLostException::class.java) { lock.unlock() }.reason)
    }

    private fun lossOf(lease: Lease): CompletableFuture<LostReason> =
        CompletableFuture<LostReason>().also { lease.onLost(it::complete) }

    private fun steal(jedis: Jedis) {
        jedis.del("lost")
        jedis.hset("lost", "thief", "1")
        jedis.pexpire("lost", 60_000)
    }

    private companion object {
        /** A third of the lease plus half a second. */
        const val REPORTED_WITHIN_MS = 834L
    }
}

package io.github.steadlock

import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertInstanceOf
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.EnumSource
import java.time.Duration
import java.util.UUID
import java.util.concurrent.TimeUnit

/** Tests leases whose client is closed before their release, inside and outside a block. */
class AfterCloseTest {
    enum class LockUnderTest(val lock: (SteadlockClient) -> NamedLock) {
        LOCK({ it.lock("a") }),
        MUTEX({ it.mutex("a") }),
        FAIR_LOCK({ it.fairLock("a") }),
        READ_SIDE({ it.readWriteLock("a").readLock() }),
        WRITE_SIDE({ it.readWriteLock("a").writeLock() }),
        COMPOSITE_LOCK({ it.multiLock(it.lock("a"), it.mutex("b")) }),
        FIXED_LEASE({ it.lock("a", LockOptions.DEFAULT.withLease(Duration.ofSeconds(20))) }),
    }

    private class BodyFailed : RuntimeException()

    @ParameterizedTest
    @EnumSource
    fun `a release after close returns released`(tested: LockUnderTest) {
        val client = Steadlock.connect("memory://")
        val lock = tested.lock(client)
        lock.lock()
        val lease = lock.held
        client.close()
        assertEquals(LostReason.CLOSED, lease.lostReason)
        assertEquals(ReleaseOutcome.RELEASED, lease.release())
        assertEquals(ReleaseOutcome.RELEASED, lease.release())
        assertEquals(ReleaseOutcome.RELEASED, lease.releaseAsync().toCompletableFuture().get(5, TimeUnit.SECONDS))
        assertThrows(ClosedException::class.java) { lock.unlock() }
    }

    @ParameterizedTest
    @EnumSource
    fun `a thread holds no lock of a closed client`(tested: LockUnderTest) {
        val client = Steadlock.connect("memory://")
        val lock = tested.lock(client)
        lock.lock()
        client.close()
        assertFalse(lock.isHeldByCurrentThread)
        assertEquals(0, lock.holdCount)
        assertNull(lock.lease)
    }

    @Test
    fun `close logs the locks that it releases`() {
        Warnings().use { warnings ->
            val client = Steadlock.connect("memory://")
            repeat(2) { client.lock("mine").lock() }
            client.lock("without thread").lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
            client.lock("gone").withLock {}
            client.close()
            Steadlock.connect("memory://").close()
            val countWarnings = { text: String ->
                warnings.count { it.contains("is closed while") && it.contains(text) }
            }
            val thread = Thread.currentThread().name
            assertEquals(1, countWarnings("which are released: "))
            assertEquals(1, countWarnings("\"mine\" (thread $thread)"))
            assertEquals(1, countWarnings("\"without thread\""))
            assertEquals(0, countWarnings("gone"))
        }
    }

    @Test
    fun `close names at most ten locks`() {
        Warnings().use { warnings ->
            Steadlock.connect("memory://").use { client -> repeat(12) { client.lock("a$it").lock() } }
            assertEquals(1, warnings.count { it.endsWith(" and 2 more") })
        }
    }

    @Test
    fun `a release after close returns released for leases of stages and permits`() {
        val client = Steadlock.connect("memory://")
        val lease = client.lock("a").lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
        val permits = client.semaphore("b", 3).acquire(2)
        client.close()
        assertEquals(ReleaseOutcome.RELEASED, lease.releaseAsync().toCompletableFuture().get(5, TimeUnit.SECONDS))
        assertEquals(ReleaseOutcome.RELEASED, permits.release())
    }

    @Test
    fun `a release after close returns released with RedLock`() {
        val client = Steadlock.redlock(List(3) { "memory://${UUID.randomUUID()}" })
        val lock = client.lock("a")
        lock.lock()
        val lease = lock.held
        client.close()
        assertEquals(ReleaseOutcome.RELEASED, lease.release())
    }

    @Test
    fun `a release after close returns an earlier loss`() {
        val client = Steadlock.connect("memory://")
        val removed = client.lock("a").lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
        val expired = client.lock("b").lock(Duration.ofMillis(100))
        assertTrue(client.forceRelease(client.lock("a")))
        assertThrows(LockLostException::class.java) { removed.extend(Duration.ofSeconds(60)) }
        awaitTrue("it expires") { expired.lostReason == LostReason.EXPIRED }
        client.close()
        assertEquals(ReleaseOutcome.EXPIRED, removed.release())
        assertEquals(ReleaseOutcome.EXPIRED, expired.release())
        assertThrows(LockLostException::class.java) { removed.close() }
    }

    @Test
    fun `a release after close returns the outcome of the close`() {
        RedisServer().use { server ->
            val client = Steadlock.connect(server.url)
            val (removed, stolen, held) =
                listOf("a", "b", "c").map {
                    client.mutex(it).lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
                }
            server.ask { it.del("a") }
            server.ask { it.set("b", "00000000-0000-4000-8000-000000000000:9007199254740993") }
            client.close()
            assertEquals(ReleaseOutcome.EXPIRED, removed.release())
            assertEquals(ReleaseOutcome.STOLEN, stolen.release())
            assertEquals(ReleaseOutcome.RELEASED, held.release())
        }
    }

    @Test
    fun `a release after an unanswered close returns unknown`() {
        RedisServer().use { server ->
            val client = Steadlock.connect(server.url)
            val lease = client.lock("a").lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
            server.kill()
            client.close()
            assertEquals(ReleaseOutcome.UNKNOWN, lease.release())
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `closing the client inside a block throws LockLost`(tested: LockUnderTest) {
        for (hold in holds) {
            val client = Steadlock.connect("memory://")
            val thrown = assertThrows(LockLostException::class.java) { hold(tested.lock(client)) { client.close() } }
            assertEquals(LostReason.CLOSED, thrown.reason)
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `closing the client inside a block keeps the exception of the block`(tested: LockUnderTest) {
        for (hold in holds) {
            val client = Steadlock.connect("memory://")
            val thrown =
                assertThrows(BodyFailed::class.java) {
                    hold(tested.lock(client)) {
                        client.close()
                        throw BodyFailed()
                    }
                }
            assertInstanceOf(LockLostException::class.java, thrown.suppressed.single())
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `closing the client inside a coroutine throws LockLost or the exception of the block`(tested: LockUnderTest) {
        val client = Steadlock.connect("memory://")
        val thrown =
            assertThrows(LockLostException::class.java) {
                runBlocking { client.withLock(tested.lock(client)) { client.close() } }
            }
        assertEquals(LostReason.CLOSED, thrown.reason)
        val another = Steadlock.connect("memory://")
        assertNotNull(
            assertThrows(BodyFailed::class.java) {
                runBlocking {
                    another.withLock(tested.lock(another)) {
                        another.close()
                        throw BodyFailed()
                    }
                }
            },
        )
    }

    private companion object {
        /** The ways to hold a lock during a block. */
        val holds: List<(NamedLock, () -> Unit) -> Unit> =
            listOf(
                { lock, block -> lock.withLock { block() } },
                { lock, block -> lock.lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS).use { block() } },
            )
    }
}

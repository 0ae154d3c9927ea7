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
    enum class Made(val lock: (SteadlockClient) -> NamedLock) {
        LOCK({ it.lock("a") }),
        MUTEX({ it.mutex("a") }),
        FAIR_LOCK({ it.fairLock("a") }),
        READ_SIDE({ it.readWriteLock("a").readLock() }),
        WRITE_SIDE({ it.readWriteLock("a").writeLock() }),
        SEVERAL_AS_ONE({ it.multiLock(it.lock("a"), it.mutex("b")) }),
        OF_FIXED_LEASES({ it.lock("a", LockOptions.DEFAULT.withLease(Duration.ofSeconds(20))) }),
    }

    private class BodyFailed : RuntimeException()

    @ParameterizedTest
    @EnumSource
    fun `a release after the close says released`(made: Made) {
        val client = Steadlock.connect("memory://")
        val lock = made.lock(client)
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
    fun `a thread holds nothing of a client that was closed`(made: Made) {
        val client = Steadlock.connect("memory://")
        val lock = made.lock(client)
        lock.lock()
        client.close()
        assertFalse(lock.isHeldByCurrentThread)
        assertEquals(0, lock.holdCount)
        assertNull(lock.lease)
    }

    @Test
    fun `a close says which locks it releases, and nothing if there are none`() {
        Warnings().use { warnings ->
            val client = Steadlock.connect("memory://")
            repeat(2) { client.lock("mine").lock() }
            client.lock("nobody's").lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
            client.lock("gone").withLock {}
            client.close()
            Steadlock.connect("memory://").close()
            val told = { text: String -> warnings.count { it.contains("is closed while") && it.contains(text) } }
            val thread = Thread.currentThread().name
            assertEquals(1, told("which are released: "))
            assertEquals(1, told("\"mine\" (thread $thread)"))
            assertEquals(1, told("\"nobody's\""))
            assertEquals(0, told("gone"))
        }
    }

    @Test
    fun `a close names ten locks`() {
        Warnings().use { warnings ->
            Steadlock.connect("memory://").use { client -> repeat(12) { client.lock("a$it").lock() } }
            assertEquals(1, warnings.count { it.endsWith(" and 2 more") })
        }
    }

    @Test
    fun `a release after the close says released of a lease of nobody, and of permits`() {
        val client = Steadlock.connect("memory://")
        val of = client.lock("a").lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
        val permits = client.semaphore("b", 3).acquire(2)
        client.close()
        assertEquals(ReleaseOutcome.RELEASED, of.releaseAsync().toCompletableFuture().get(5, TimeUnit.SECONDS))
        assertEquals(ReleaseOutcome.RELEASED, permits.release())
    }

    @Test
    fun `a release after the close says released of several primaries`() {
        val client = Steadlock.redlock(List(3) { "memory://${UUID.randomUUID()}" })
        val lock = client.lock("a")
        lock.lock()
        val lease = lock.held
        client.close()
        assertEquals(ReleaseOutcome.RELEASED, lease.release())
    }

    @Test
    fun `a release after the close says how the lease was lost before`() {
        val client = Steadlock.connect("memory://")
        val removed = client.lock("a").lockAsync().toCompletableFuture().get(5, TimeUnit.SECONDS)
        val lapsed = client.lock("b").lock(Duration.ofMillis(100))
        assertTrue(client.forceRelease(client.lock("a")))
        assertThrows(LockLostException::class.java) { removed.extend(Duration.ofSeconds(60)) }
        awaitTrue("it lapses") { lapsed.lostReason == LostReason.EXPIRED }
        client.close()
        assertEquals(ReleaseOutcome.EXPIRED, removed.release())
        assertEquals(ReleaseOutcome.EXPIRED, lapsed.release())
        assertThrows(LockLostException::class.java) { removed.close() }
    }

    @Test
    fun `a release after the close says what the close itself has found out`() {
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
    fun `a release after a close that no server answered says unknown`() {
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
    fun `a block whose client is closed in it tells the loss`(made: Made) {
        for (hold in holds) {
            val client = Steadlock.connect("memory://")
            val thrown = assertThrows(LockLostException::class.java) { hold(made.lock(client)) { client.close() } }
            assertEquals(LostReason.CLOSED, thrown.reason)
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `what a block throws comes out of it though its client is closed in it`(made: Made) {
        for (hold in holds) {
            val client = Steadlock.connect("memory://")
            val thrown =
                assertThrows(BodyFailed::class.java) {
                    hold(made.lock(client)) {
                        client.close()
                        throw BodyFailed()
                    }
                }
            assertInstanceOf(LockLostException::class.java, thrown.suppressed.single())
        }
    }

    @ParameterizedTest
    @EnumSource
    fun `a coroutine whose client is closed in it tells the loss, or what it throws itself`(made: Made) {
        val client = Steadlock.connect("memory://")
        val thrown =
            assertThrows(LockLostException::class.java) {
                runBlocking { client.withLock(made.lock(client)) { client.close() } }
            }
        assertEquals(LostReason.CLOSED, thrown.reason)
        val another = Steadlock.connect("memory://")
        assertNotNull(
            assertThrows(BodyFailed::class.java) {
                runBlocking {
                    another.withLock(made.lock(another)) {
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

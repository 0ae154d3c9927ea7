package io.github.steadlock

import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration
import kotlin.time.Duration.Companion.seconds

/** Tests locks on a majority of three redis-servers. */
class RedlockTest {
    private val servers = List(3) { RedisServer() }
    private val urls = servers.map(RedisServer::url)
    private val client = Steadlock.redlock(urls)

    @AfterEach
    fun close() {
        client.close()
        servers.forEach(RedisServer::close)
    }

    @Test
    fun `all primaries hold the lock, others are refused, and no record is left`() {
        val lock = client.lock("name")
        lock.withLock { lease ->
            assertNull(lease.token)
            awaitTrue("all three hold it") { holders(servers) == 3 }
            assertTrue(lock.isLocked)
            assertEquals(1, lock.holdCount)
            Steadlock.redlock(*urls.toTypedArray()).use { other ->
                assertFalse(other.lock("name").tryLock())
                assertFalse(other.mutex("name").tryLock())
            }
        }
        assertFalse(lock.isHeldByCurrentThread)
        awaitNothingLeft(servers)
    }

    @Test
    fun `one of three primaries can be down`() {
        val held = client.lock("before").lock(Duration.ofSeconds(20))
        // The grant needs only a majority. The test waits for the third record, because the first server dies and the
        // release needs a majority too.
        awaitTrue("all hold it") { holders(servers, "before") == 3 }
        servers[0].kill()
        assertTrue(held.isValid)
        assertEquals(ReleaseOutcome.RELEASED, held.release())
        assertTrue(client.lock("name").tryLock(Duration.ofSeconds(5)))
        client.lock("name").unlock()
        Steadlock.redlock(urls).use { fresh -> fresh.mutex("name").withLock { } }
        awaitNothingLeft(servers.drop(1))
    }

    @Test
    fun `with two of three primaries down, a wait ends with Unavailable`() {
        // The timeout is longer than the limit of 15 s, so only the end of the wait can come in time.
        val builder = Steadlock.builder().primaries(urls).commandTimeout(Duration.ofSeconds(30))
        builder.connect().use { other ->
            servers.take(2).forEach(RedisServer::kill)
            val lock = other.lock("name")
            val took =
                millis {
                    assertThrows(UnavailableException::class.java) { lock.tryLock(Duration.ofMillis(700)) }
                }
            assertTrue(took < 15_000, "took $took ms")
        }
        assertThrows(UnavailableException::class.java) {
            Steadlock.builder().primaries(urls).connectTimeout(Duration.ofMillis(500)).connect()
        }
        awaitNothingLeft(servers.drop(2))
    }

    @Test
    fun `a primary listed twice is Misconfigured, even under another name`() {
        val (a, b) = urls
        for (third in listOf(a, "redis://localhost:${servers[0].port}")) {
            assertThrows(MisconfiguredException::class.java, { Steadlock.redlock(a, b, third) }, third)
        }
    }

    @Test
    fun `an even number of primaries, none, and one URL beside them are refused`() {
        assertThrows(InvalidArgumentException::class.java) { Steadlock.redlock(emptyList()) }
        assertThrows(InvalidArgumentException::class.java) { Steadlock.redlock() }
        assertThrows(InvalidArgumentException::class.java) { Steadlock.redlock(urls.take(2)) }
        assertThrows(InvalidArgumentException::class.java) {
            Steadlock.builder().url(urls[0]).primaries(*urls.toTypedArray()).connect()
        }
    }

    @Test
    fun `the options of connect apply`() {
        val options = Steadlock.builder().primaries(urls).keyPrefix("shop:").lease(Duration.ofSeconds(2))
        options.connect().use { other ->
            other.lock("name").withLock { lease ->
                assertTrue(lease.remaining <= Duration.ofSeconds(2), "${lease.remaining}")
                awaitTrue("all three hold it") { holders(servers, "shop:name") == 3 }
            }
        }
        awaitNothingLeft(servers)
    }

    @Test
    fun `other kinds are refused, and a thread does not re-enter`() {
        val others =
            listOf(
                client.fairLock("name"),
                client.readWriteLock("name").write,
                client.semaphore("name", 1).permits(1),
                client.multiLock(client.mutex("name")),
            )
        for (lock in others) {
            assertThrows(InvalidArgumentException::class.java, { lock.lock() }, "$lock")
        }
        client.lock("name").withLock { assertFalse(client.lock("name").tryLock()) }
        awaitNothingLeft(servers)
    }

    @Test
    fun `a coroutine can hold a RedLock`() {
        runBlocking {
            client.withLock("name") { lease ->
                assertNull(lease.token)
                assertThrows(InvalidArgumentException::class.java) {
                    runBlocking { client.withLock("name", within = lease) { } }
                }
            }
        }
        awaitNothingLeft(servers)
    }

    @Test
    fun `a coroutine that would wait for itself fails at once, for lock and mutex`() {
        val (lock, mutex) = client.lock("name") to client.mutex("name")
        for ((outer, inner) in listOf(lock to lock, lock to mutex, mutex to lock, mutex to mutex)) {
            assertThrows(InvalidArgumentException::class.java) {
                runBlocking { client.withLock(outer) { client.withLock(inner, wait = 5.seconds) { } } }
            }
        }
        runBlocking { client.withLock(lock) { client.withLock(client.mutex("other")) { } } }
        awaitNothingLeft(servers)
    }

    private fun holders(among: List<RedisServer>, name: String = "name"): Int =
        among.count { server -> server.ask { it.exists(name) } }

    private fun awaitNothingLeft(among: List<RedisServer>) =
        awaitTrue("nothing is left") {
            // The description that a client publishes of itself stays for a while.
            among.all { server -> server.ask { keys -> keys.keys("*").all { it.endsWith(":client") } } }
        }
}

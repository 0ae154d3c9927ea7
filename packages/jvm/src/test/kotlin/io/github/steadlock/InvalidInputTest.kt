package io.github.steadlock

import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.nio.file.Path
import java.time.Duration
import java.util.concurrent.TimeUnit

/** Tests that bad input throws a typed error and writes nothing to the server. */
class InvalidInputTest {
    private val server = RedisServer("--requirepass", PASSWORD)
    private val url = "redis://:$PASSWORD@127.0.0.1:${server.port}"
    private val client = Steadlock.connect(url)

    @AfterEach
    fun close() {
        client.close()
        server.close()
    }

    @Test
    fun `invalid names are refused`() {
        val bad =
            listOf("", "n".repeat(513), "a\u0000b", "a{b", "a}b", "{}z", "steadlock:x", "redisson_x", "half\uD800pair")
        for (name in bad) {
            assertThrows(InvalidArgumentException::class.java, { client.lock(name).tryLock() }, name)
        }
        assertNothingWritten()
        assertTrue(client.lock("n".repeat(512)).tryLock())
    }

    @Test
    fun `invalid leases are refused`() {
        val lock = client.lock("name")
        val bad = listOf(Duration.ZERO, Duration.ofMillis(-5), Duration.ofMillis(99), Duration.ofHours(25), FOREVER)
        for (lease in bad) {
            assertThrows(InvalidArgumentException::class.java, { lock.lock(lease) }, "$lease")
            val renewed = client.lock("name", LockOptions.DEFAULT.withLease(lease).renewed())
            assertThrows(InvalidArgumentException::class.java, { renewed.lock() }, "$lease")
            assertThrows(
                InvalidArgumentException::class.java,
                { client.lock("name", LockOptions.DEFAULT.withMaxHold(lease.coerceAtMost(Duration.ZERO))).lock() },
                "$lease",
            )
        }
        val negative = client.lock("name", LockOptions.DEFAULT.withWait(Duration.ofMillis(-1)))
        assertThrows(InvalidArgumentException::class.java) { negative.lock() }
        assertNothingWritten()
    }

    @Test
    fun `a negative wait means one attempt`() {
        val lease = Duration.ofSeconds(10)
        val negative = Duration.ofMillis(-5)
        val attempts =
            listOf<NamedLock.() -> Boolean>(
                { tryLock(-5, TimeUnit.MILLISECONDS) },
                { tryLock(-5, 10_000, TimeUnit.MILLISECONDS) },
                { tryLock(negative) },
                { tryLock(negative, lease) },
            )
        val lock = client.lock("name")
        for (attempt in attempts) {
            assertTrue(lock.attempt())
            assertFalse(onAnotherThread { lock.attempt() })
            lock.unlock()
        }
        val seats = client.semaphore("seats", 1)
        assertTrue(
            listOf(seats.tryAcquire(1, negative), seats.tryAcquire(1, negative, lease)).count {
                it != null
            } == 1,
        )
    }

    @Test
    fun `an infinite wait is a wait without a bound`() {
        assertTrue(client.lock("name").tryLock(FOREVER))
    }

    @Test
    fun `invalid options are refused`() {
        val bad =
            listOf(
                Steadlock.builder().url(url).lease(Duration.ZERO),
                Steadlock.builder().url(url).lease(Duration.ofMillis(299)),
                Steadlock.builder().url(url).commandTimeout(Duration.ofMillis(-1)),
                Steadlock.builder().url("redis//nowhere"),
                Steadlock.builder().url("http://127.0.0.1"),
                Steadlock.builder().url(""),
            )
        for (builder in bad) {
            assertThrows(InvalidArgumentException::class.java) { builder.connect() }
        }
        val unreadable = Steadlock.builder().url("rediss://127.0.0.1").tlsCaFile(Path.of("target/nowhere.pem"))
        assertThrows(SteadlockException::class.java) { unreadable.connect() }
    }

    @Test
    fun `the server can be given in parts with any characters`() {
        val odd = "p@ss:w/o r%d#?&=é€[]"
        server.ask { it.aclSetUser("us:er@x", "on", ">$odd", "~*", "&*", "+@all") }
        val parts = Steadlock.builder().host(
            "127.0.0.1",
        ).port(server.port).username("us:er@x").password(odd).database(3)
        parts.connect().use { other ->
            other.lock("name").lock()
            assertTrue(server.ask { it.dbSize() } == 0L, "another database")
            assertTrue(client.lock("name").tryLock())
        }
        // Without a host, the server is on localhost.
        Steadlock.builder().port(server.port).password(PASSWORD).connect().close()
    }

    @Test
    fun `a server given twice or wrongly is refused without its password`() {
        val bad =
            mapOf(
                Steadlock.builder().url(url).host("127.0.0.1") to "URL",
                Steadlock.builder().url(url).password("hunter2") to "URL",
                Steadlock.builder().primaries(url, url, url).port(1) to "primaries",
                Steadlock.builder().host("").password("hunter2") to "host",
                Steadlock.builder().host("127.0.0.1:6379").password("hunter2") to "port",
                Steadlock.builder().host("x@127.0.0.1").password("hunter2") to "host",
                Steadlock.builder().host("localhost").port(0) to "port 0",
                Steadlock.builder().host("localhost").port(70_000) to "port 70000",
                Steadlock.builder().host("localhost").database(-1) to "database -1",
                Steadlock.builder().host("localhost").username("alice") to "password",
            )
        for ((builder, expected) in bad) {
            val refused = assertThrows(InvalidArgumentException::class.java) { builder.connect() }
            assertTrue(refused.message.orEmpty().contains(expected), refused.message)
            assertFalse(refused.toString().contains("hunter2"), refused.message)
            assertEquals("connect", refused.operation)
        }
    }

    @Test
    fun `a refused connection is Unavailable`() {
        val free = freePort()
        assertThrows(UnavailableException::class.java) {
            Steadlock.builder().url("redis://127.0.0.1:$free").connectTimeout(Duration.ofMillis(300)).connect()
        }
    }

    @Test
    fun `a wrong password is Misconfigured and not repeated`() {
        val refused =
            assertThrows(SteadlockException::class.java) {
                Steadlock.connect("redis://:hunter2@127.0.0.1:${server.port}")
            }
        assertEquals(MisconfiguredException::class.java, refused.javaClass, refused.message)
        assertFalse(refused.toString().contains("hunter2"), refused.message)
    }

    @Test
    fun `a key of another type is Misconfigured and not changed`() {
        server.ask { it.set("name", "a string") }
        assertThrows(MisconfiguredException::class.java) { client.lock("name").tryLock() }
        assertEquals("a string", server.ask { it.get("name") })
    }

    private fun assertNothingWritten() = assertEquals(0, server.ask { it.dbSize() })

    private companion object {
        const val PASSWORD = "correct-horse"
        val FOREVER: Duration = Duration.ofSeconds(Long.MAX_VALUE)
    }
}

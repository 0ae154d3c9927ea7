package io.github.steadlock

import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertInstanceOf
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration
import java.util.concurrent.CompletionStage
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit.MILLISECONDS
import java.util.concurrent.TimeUnit.SECONDS

/** Tests acquisitions during an outage of the server and after it. */
class OutageTest {
    private val server = RedisServer()

    @AfterEach
    fun close() = server.close()

    @Test
    fun `calls fail at once while a server hangs, and held locks stay valid`() =
        quick().connect().use { client ->
            val kept = client.lock("kept").lock(Duration.ofMinutes(5))
            server.pause()
            awaitOpen(client)
            val lock = client.lock("a")
            val took =
                millis {
                    for (refused in refusalsOf(client) + refusedAttemptsOf(client)) {
                        assertTrue(refused.isRetryable && !refused.isSkipped, refused.message)
                        assertTrue(refused.message.orEmpty().contains("circuit breaker"), refused.message)
                        assertNotNull(refused.node)
                    }
                }
            // Without the circuit breaker, each call would have waited for the server, some of them without bound.
            assertTrue(took < SOON_MS, "took $took ms")
            assertTrue(kept.isValid && !kept.isDegraded)
            server.resume()
            awaitClosed(client)
            lock.withLock { lease -> assertFalse(lease.isDegraded) }
            assertEquals(ReleaseOutcome.RELEASED, kept.release())
        }

    @Test
    fun `a skipped lock is not acquired, and its block does not run`() =
        quick().onUnavailable(OnUnavailable.SKIP).connect().use { client ->
            server.kill()
            awaitOpen(client)
            val (lock, semaphore) = client.lock("a") to client.semaphore("s", 2)
            assertFalse(lock.tryLock())
            assertFalse(lock.tryLock(SOON_MS, MILLISECONDS))
            assertFalse(lock.tryLock(0, 10, SECONDS))
            assertFalse(lock.tryLock(SOON))
            assertFalse(lock.tryLock(SOON, Duration.ofSeconds(10)))
            assertNull(semaphore.tryAcquire())
            assertNull(semaphore.tryAcquire(1, SOON))
            for (skipped in refusalsOf(client)) {
                assertTrue(skipped.isSkipped && skipped.message.orEmpty().contains("skipped"), skipped.message)
            }
            assertFalse(lock.isHeldByCurrentThread)
            server.startAgain()
            awaitClosed(client)
            assertFalse(lock.withLock { lease -> lease.isDegraded })
            assertTrue(lock.tryLock())
            lock.unlock()
        }

    @Test
    fun `locks are granted locally until the server is back`() =
        quick().onUnavailable(OnUnavailable.LOCAL).connect().use { client ->
            val lock = client.lock("a")
            lock.withLock { lease -> assertFalse(lease.isDegraded || lease.token == null, "$lease") }
            server.kill()
            awaitOpen(client)
            lock.lock()
            val here = lock.held
            assertTrue(here.isDegraded && here.isValid && here.token == null, "$here")
            assertTrue(lock.tryLock())
            assertEquals(2, lock.holdCount)
            lock.unlock()
            assertFalse(onAnotherThread { lock.tryLock() })
            assertTrue(runBlocking { client.withLock("b") { lease -> lease.isDegraded } })
            // Only the server can count permits.
            val refused = refusal { client.semaphore("s", 2).acquire() }
            assertFalse(refused.isSkipped, refused.message)
            server.startAgain()
            awaitClosed(client)
            assertFalse(onAnotherThread { lock.tryLock() })
            Steadlock.connect(server.url).use { other -> other.lock("a").withLock { assertFalse(it.isDegraded) } }
            lock.unlock()
            lock.withLock { lease -> assertFalse(lease.isDegraded || lease.token == null, "$lease") }
        }

    @Test
    fun `a lock can override the policy of its client`() =
        quick().connect().use { client ->
            server.kill()
            awaitOpen(client)
            assertFalse(refusal { client.lock("a").lock() }.isSkipped)
            val skipping = client.lock("a", SKIP)
            assertTrue(refusal { skipping.lock() }.isSkipped)
            val local = LockOptions.DEFAULT.onUnavailable(OnUnavailable.LOCAL)
            assertTrue(client.mutex("m", local).withLock { lease -> lease.isDegraded })
            assertTrue(client.fairLock("f", local).withLock { lease -> lease.isDegraded })
            val both = client.multiLock(listOf(client.lock("x"), client.lock("y")), local)
            assertTrue(both.withLock { lease -> lease.isDegraded })
            // The options of a call override those of the lock.
            val lease = skipping.lockAsync(local).toCompletableFuture().get(SOON_MS, MILLISECONDS)
            assertTrue(lease.isDegraded)
            assertFalse(client.lock("a", local).tryLock())
            assertEquals(ReleaseOutcome.RELEASED, lease.release())
        }

    @Test
    fun `onUnavailable needs a breaker`() =
        Steadlock.connect("memory://").use { client ->
            for (policy in OnUnavailable.entries) {
                val lock = client.lock("a", LockOptions.DEFAULT.onUnavailable(policy))
                assertThrows(InvalidArgumentException::class.java) { lock.tryLock() }
            }
            assertTrue(client.lock("a").withLock { lease -> !lease.isDegraded })
        }

    @Test
    fun `a breaker out of its range is refused`() {
        val second = Duration.ofSeconds(1)
        val wrong = listOf(-1 to second, 0 to second, 1_000_001 to second, 5 to Duration.ZERO, 5 to Duration.ofDays(2))
        for ((failures, pause) in wrong) {
            val builder = Steadlock.builder().url("memory://").breaker(failures, pause)
            val refused = assertThrows(InvalidArgumentException::class.java) { builder.connect() }
            assertTrue(refused.message.orEmpty().contains("circuit breaker"), refused.message)
        }
        val several = Steadlock.builder().primaries("memory://one", "memory://two", "memory://three")
        several.onUnavailable(OnUnavailable.LOCAL)
        assertThrows(InvalidArgumentException::class.java) { several.connect() }
        several.onUnavailable(OnUnavailable.SKIP).connect().close()
    }

    /** Returns a builder whose client notices an outage quickly. */
    private fun quick(): SteadlockBuilder {
        val builder = Steadlock.builder().url(server.url).commandTimeout(Duration.ofSeconds(1))
        return builder.breaker(FAILURES, Duration.ofMillis(400))
    }

    /** Waits until the breaker opens. Makes several attempts at once, because each waits for the command timeout. */
    private fun awaitOpen(client: SteadlockClient) =
        awaitTrue("the breaker opens", SOON_MS) {
            val attempts = List(FAILURES) { client.lock("canary$it").lockAsync(SKIP.withWait(Duration.ZERO)) }
            attempts.map(::refusalOf).all { it.isSkipped }
        }

    private fun awaitClosed(client: SteadlockClient) {
        val lock = client.lock("canary", LockOptions.DEFAULT.onUnavailable(OnUnavailable.FAIL))
        awaitTrue("the breaker closes", SOON_MS) {
            try {
                lock.withLock { true }
            } catch (_: UnavailableException) {
                false
            }
        }
    }

    /** Returns the exceptions of all methods that return a lease or throw. */
    private fun refusalsOf(client: SteadlockClient): List<UnavailableException> {
        val (lock, semaphore) = client.lock("a") to client.semaphore("s", 2)
        return listOf(
            refusal { lock.lock() },
            refusal { lock.lock(Duration.ofSeconds(10)) },
            refusal { lock.lock(10, SECONDS) },
            refusal { lock.lockInterruptibly() },
            refusal { lock.lockInterruptibly(10, SECONDS) },
            refusal { lock.withLock { error("the body runs") } },
            refusal { semaphore.acquire() },
            refusal { semaphore.withPermits(2) { error("the body runs") } },
            refusal { runBlocking { client.withLock("a") { error("the body runs") } } },
            refusal { runBlocking { client.withPermits(semaphore) { error("the body runs") } } },
            refusalOf(lock.lockAsync()),
            refusalOf(lock.lockAsync(LockOptions.DEFAULT.withWait(SOON))),
            refusalOf(semaphore.acquireAsync()),
        )
    }

    /** Returns the exceptions of all methods that report by their result whether the lock was acquired. */
    private fun refusedAttemptsOf(client: SteadlockClient): List<UnavailableException> {
        val (lock, semaphore) = client.lock("a") to client.semaphore("s", 2)
        return listOf(
            refusal { lock.tryLock() },
            refusal { lock.tryLock(SOON) },
            refusal { semaphore.tryAcquire() },
            refusal { semaphore.tryAcquire(1, SOON) },
        )
    }

    private fun refusal(call: () -> Unit): UnavailableException =
        assertThrows(UnavailableException::class.java) { call() }

    private fun refusalOf(stage: CompletionStage<Lease>): UnavailableException {
        val failed =
            assertThrows(ExecutionException::class.java) { stage.toCompletableFuture().get(SOON_MS, MILLISECONDS) }
        return assertInstanceOf(UnavailableException::class.java, failed.cause)
    }

    private companion object {
        const val SOON_MS = 20_000L

        /** The failures in a row that open the circuit breaker. */
        const val FAILURES = 3
        val SOON: Duration = Duration.ofMillis(SOON_MS)
        val SKIP: LockOptions = LockOptions.DEFAULT.onUnavailable(OnUnavailable.SKIP)
    }
}

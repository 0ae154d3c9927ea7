package io.github.steadlock

import io.github.steadlock.opentelemetry.SteadlockTelemetry
import io.opentelemetry.api.OpenTelemetry
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.lang.ref.WeakReference
import java.time.Duration
import java.util.concurrent.CountDownLatch
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread

/** Tests what a client reports about its leases, waits and losses. */
class LockActivityTest {
    private fun watched(url: String = "memory://", work: (SteadlockClient, LockActivity) -> Unit) =
        Steadlock.connect(url).use { client ->
            LockActivity.watch(client).use { activity -> work(client, activity) }
        }

    @Test
    fun `a held lock is listed with thread, token and remaining time`() =
        watched { client, activity ->
            val lock = client.lock("stock:42")
            lock.lock()
            val hold = activity.held().single()
            assertEquals("stock:42" to "lock", hold.name to hold.kind)
            assertEquals(Thread.currentThread().name, hold.thread)
            assertEquals(lock.held.token, hold.token)
            assertTrue(hold.remaining > Duration.ofSeconds(20) && hold.remaining <= Duration.ofSeconds(30), "$hold")
            assertFalse(hold.isDegraded)
            assertTrue(activity.waiting().isEmpty())
            lock.unlock()
            assertTrue(activity.held().isEmpty())
            assertTrue(activity.lost().isEmpty())
        }

    @Test
    fun `leases of stages have no thread, and re-entries are listed separately`() =
        watched { client, activity ->
            val lease = client.lock("stage").lockAsync().toCompletableFuture().get()
            assertNull(activity.held().single().thread)
            lease.release()
            val lock = client.lock("twice")
            repeat(2) { lock.lock() }
            assertEquals(listOf("twice", "twice"), activity.held().map { it.name })
            repeat(2) { lock.unlock() }
            client.semaphore("seats", 3).withPermits(2) { assertEquals("semaphore", activity.held().single().kind) }
            assertTrue(activity.held().isEmpty())
        }

    @Test
    fun `a thread without a name is listed by its number`() =
        watched { client, activity ->
            var listed: String? = null
            val nameless =
                Thread(null, { client.lock("stock").withLock { listed = activity.held().single().thread } }, "")
            nameless.start()
            nameless.join(10_000)
            assertEquals("#${nameless.id}", listed)
        }

    @Test
    fun `a waiter is listed until its wait ends`() =
        watched { client, activity ->
            val lease = client.lock("busy").lockAsync().toCompletableFuture().get()
            val waiter = thread(name = "shopper") { client.lock("busy").withLock { } }
            awaitTrue("it waits") { activity.waiting().isNotEmpty() }
            val wait = activity.waiting().single()
            assertEquals(listOf("busy", "lock", "shopper"), listOf(wait.name, wait.kind, wait.thread))
            assertFalse(client.lock("busy").tryLock(Duration.ZERO))
            val stage = client.lock("busy").lockAsync().toCompletableFuture()
            assertEquals(2, activity.waiting().size)
            stage.cancel(true)
            assertEquals(listOf("shopper"), activity.waiting().map { it.thread })
            assertThrows(InvalidArgumentException::class.java) { client.lock("busy").lock(Duration.ofMillis(1)) }
            assertEquals(1, activity.waiting().size)
            lease.release()
            waiter.join(10_000)
            assertTrue(activity.waiting().isEmpty())
            assertTrue(activity.held().isEmpty())
        }

    @Test
    fun `a lost lease is listed once with the reason`() =
        watched { client, activity ->
            val lock = client.lock("removed")
            lock.lock()
            client.forceRelease(lock)
            assertThrows(LockLostException::class.java) { lock.unlock() }
            assertEquals("removed", activity.lost().single().name)
            client.lock("expired").lock(Duration.ofMillis(100))
            awaitTrue("it has expired") { activity.lost().size == 2 }
            val loss = activity.lost().last()
            assertEquals(Triple("expired", LostReason.EXPIRED, Thread.currentThread().name), loss.triple())
            assertTrue(loss.since <= loss.at)
            assertTrue(activity.held().isEmpty())
        }

    private fun LockActivity.Loss.triple() = Triple(name, reason, thread)

    @Test
    fun `of many losses the latest hundred are kept`() =
        watched { client, activity ->
            val leases = List(130) { client.lock("lost:$it").lock(Duration.ofMillis(100)) }
            awaitTrue("all have expired") { leases.all { it.lostReason != null } && activity.held().isEmpty() }
            awaitTrue("the last is listed") { activity.lost().size == 100 }
            assertEquals(100, activity.lost().map { it.name }.distinct().size)
        }

    @Test
    fun `a password in a name is not listed`() =
        watched { client, activity ->
            client.lock("redis://user:secret@host/0").withLock {
                assertFalse("secret" in activity.held().toString(), "${activity.held()}")
            }
        }

    @Test
    fun `telemetry and several activities can watch one client`() =
        Steadlock.builder().url("memory://").metrics().connect().use { client ->
            val first = LockActivity.watch(client)
            val telemetry = SteadlockTelemetry.instrument(client, OpenTelemetry.noop())
            assertThrows(IllegalStateException::class.java) {
                SteadlockTelemetry.instrument(client, OpenTelemetry.noop())
            }
            val second = LockActivity.watch(client)
            val lock = client.lock("name")
            lock.lock()
            assertEquals(lock.held.token, first.held().single().token)
            assertEquals(lock.held.token, second.held().single().token)
            first.close()
            first.close()
            telemetry.close()
            assertTrue(first.held().isEmpty())
            assertEquals("name", second.held().single().name)
            lock.unlock()
            assertTrue(second.held().isEmpty())
            lock.lock()
            assertTrue(first.held().isEmpty())
            lock.unlock()
        }

    @Test
    fun `closing the client ends open waits and holds`() {
        val client = Steadlock.connect("memory://")
        val activity = LockActivity.watch(client)
        client.lock("held").lock()
        val waiting = onAnotherThread { client.lock("held").lockAsync().toCompletableFuture() }
        assertEquals(1, activity.waiting().size)
        client.close()
        assertThrows(ExecutionException::class.java) { waiting.get(10, TimeUnit.SECONDS) }
        assertTrue(activity.held().isEmpty())
        assertTrue(activity.waiting().isEmpty())
        assertEquals(LostReason.CLOSED, activity.lost().single().reason)
        assertThrows(ClosedException::class.java) { LockActivity.watch(client) }
        activity.close()
    }

    @Test
    fun `a watched client can be dropped`() {
        var client: SteadlockClient? = Steadlock.connect("memory://")
        val dropped = WeakReference(client)
        val activity = LockActivity.watch(checkNotNull(client))
        @Suppress("UNUSED_VALUE")
        client = null
        awaitTrue("it is collected") {
            System.gc()
            dropped.get() == null
        }
        assertNotNull(activity.held())
    }

    @Test
    fun `concurrent threads leave no entry`() =
        watched { client, activity ->
            val start = CountDownLatch(1)
            val threads =
                List(8) { one ->
                    thread {
                        start.await()
                        repeat(200) { client.lock("name:${(it + one) % 3}").withLock { activity.held() } }
                    }
                }
            start.countDown()
            threads.forEach { it.join(30_000) }
            assertTrue(activity.held().isEmpty(), "${activity.held()}")
            assertTrue(activity.waiting().isEmpty(), "${activity.waiting()}")
        }
}

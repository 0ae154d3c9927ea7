package io.github.steadlock.opentelemetry

import com.google.gson.JsonParser
import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.LockLostException
import io.github.steadlock.LockOptions
import io.github.steadlock.OnUnavailable
import io.github.steadlock.RedisServer
import io.github.steadlock.Steadlock
import io.github.steadlock.SteadlockClient
import io.github.steadlock.UnavailableException
import io.github.steadlock.awaitTrue
import io.github.steadlock.held
import io.github.steadlock.onAnotherThread
import io.opentelemetry.api.trace.StatusCode
import io.opentelemetry.sdk.trace.data.SpanData
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.nio.file.Files
import java.nio.file.Path
import java.time.Duration
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit

/** Tests the spans of acquisitions by threads and stages, and of their leases. */
class SpanTest {
    private val collected = Collected()

    @AfterEach
    fun close() = collected.close()

    private fun instrumented(work: (SteadlockClient) -> Unit) =
        counting().connect().use { client ->
            SteadlockTelemetry.instrument(client, collected.sdk).use { work(client) }
        }

    @Test
    fun `a wait and a hold are children of the caller's span`() =
        instrumented { client ->
            val lock = client.lock("stock:42")
            var token: Long? = null
            val caller =
                collected.within {
                    lock.lock()
                    token = lock.held.token
                }
            // The unlock runs in another span than the lock.
            collected.within { lock.unlock() }
            val (wait, hold) = collected.spans(2)
            assertEquals(listOf("steadlock.wait", "steadlock.hold"), listOf(wait.name, hold.name))
            assertEquals(listOf(caller, caller), listOf(wait.parentSpanId, hold.parentSpanId))
            assertEquals(wait.traceId, hold.traceId)
            assertEquals(
                mapOf("steadlock.kind" to "lock", "steadlock.lock" to "stock:42", "steadlock.outcome" to "granted"),
                attributesOf(wait),
            )
            assertEquals(
                mapOf(
                    "steadlock.kind" to "lock",
                    "steadlock.lock" to "stock:42",
                    "steadlock.outcome" to "released",
                    "steadlock.token" to checkNotNull(token),
                ),
                attributesOf(hold),
            )
            assertTrue(listOf(wait, hold).all { it.status.statusCode == StatusCode.UNSET })
            assertTrue(wait.startEpochNanos <= wait.endEpochNanos && wait.endEpochNanos == hold.startEpochNanos)
            assertTrue(hold.startEpochNanos < hold.endEpochNanos)
        }

    @Test
    fun `each kind and each call has both spans`() =
        instrumented { client ->
            val (lock, sides) = client.lock("lock") to client.readWriteLock("sides")
            val (semaphore, wait) = client.semaphore("semaphore", 3) to Duration.ofSeconds(1)
            client.mutex("mutex").withLock { }
            client.fairLock("fair").apply { lockInterruptibly() }.unlock()
            assertTrue(sides.read.tryLock())
            sides.read.unlock()
            assertTrue(sides.write.tryLock(wait))
            sides.write.unlock()
            semaphore.acquire(2).release()
            semaphore.withPermit { }
            assertNotNull(semaphore.tryAcquire(1, wait)?.use { })
            client.multiLock(lock, client.lock("other")).withLock { }
            lock.lockAsync().toCompletableFuture().get().releaseAsync().toCompletableFuture().get()
            assertTrue(lock.tryLock(1, 5, TimeUnit.SECONDS))
            assertTrue(lock.tryLock())
            repeat(2) { lock.unlock() }
            val (waits, holds) = collected.spans(22).partition(SpanData::waits)
            val kinds =
                listOf("mutex", "fair_lock", "read_lock", "write_lock") + List(3) { "semaphore" } + "multi_lock" +
                    List(3) { "lock" }
            assertEquals(kinds, waits.map { it["kind"] })
            assertEquals(kinds.sorted(), holds.mapNotNull { it["kind"] }.sorted())
            assertEquals(setOf("granted"), waits.mapTo(HashSet()) { it["outcome"] })
            assertEquals(setOf("released"), holds.mapTo(HashSet()) { it["outcome"] })
            assertEquals("lock, other", waits.single { it["kind"] == "multi_lock" }["lock"])
            assertTrue(holds.all { (it["token"] == null) == (it["kind"] in TOKENLESS) })
        }

    @Test
    fun `a wait without a grant has its outcome and no hold`() =
        instrumented { client ->
            val lock = client.lock("held")
            val lease = lock.lockAsync().toCompletableFuture().get()
            val before = collected.spans(1).size
            assertFalse(lock.tryLock())
            val waiting = lock.lockAsync().toCompletableFuture()
            waiting.cancel(true)
            onAnotherThread {
                val self = Thread.currentThread()
                Thread {
                    awaitTrue("it waits") { self.state == Thread.State.WAITING }
                    self.interrupt()
                }.start()
                assertThrows(InterruptedException::class.java) { lock.lockInterruptibly() }
            }
            assertThrows(InvalidArgumentException::class.java) { lock.lock(Duration.ofMillis(1)) }
            val ends = collected.spans(before + 4).drop(before)
            val outcomes = listOf("timed_out", "cancelled", "cancelled", "refused")
            assertEquals(outcomes, ends.filter(SpanData::waits).map { it["outcome"] })
            assertEquals(StatusCode.ERROR, ends.last().status.statusCode)
            assertEquals("InvalidArgument", ends.last()["error.type"])
            assertTrue(ends.dropLast(1).all { it.status.statusCode == StatusCode.UNSET && it["error.type"] == null })
            lease.release()
        }

    @Test
    fun `a lost lease has its reason`() =
        counting("memory://lost").lease(Duration.ofSeconds(3)).connect().use { client ->
            SteadlockTelemetry.instrument(client, collected.sdk)
            client.lock("expired").lock(Duration.ofMillis(100))
            client.lock("max_hold", LockOptions.DEFAULT.withMaxHold(Duration.ofMillis(400))).lock()
            val removed = client.lock("removed").apply { lock() }
            client.forceRelease(removed)
            val stolen = client.lock("stolen").apply { lock() }
            val thief = Steadlock.connect("memory://lost")
            thief.forceRelease(thief.lock("stolen"))
            assertTrue(thief.lock("stolen").tryLock())
            awaitTrue("four losses") { collected.spans().count { it["outcome"] == "lost" } == 4 }
            assertThrows(LockLostException::class.java) { removed.unlock() }
            thief.close()
            val lost = collected.spans(4 + 4).filter { it["outcome"] == "lost" }.associateBy { it["lock"] }
            assertEquals(lost.keys, lost.values.mapTo(HashSet()) { it["reason"] })
            for ((reason, hold) in lost) {
                val status = if (reason == "max_hold") StatusCode.UNSET else StatusCode.ERROR
                assertEquals(status, hold.status.statusCode, reason)
            }
        }

    @Test
    fun `a loss found by the release has its reason`() =
        instrumented { client ->
            val lock = client.lock("name").apply { lock() }
            client.forceRelease(lock)
            assertThrows(LockLostException::class.java) { lock.unlock() }
            val hold = collected.spans(2).last()
            assertEquals("expired", hold["outcome"])
            assertEquals("expired", hold["reason"])
            assertEquals(StatusCode.ERROR, hold.status.statusCode)
        }

    @Test
    fun `closing the client ends open spans`() {
        val client = counting().connect()
        SteadlockTelemetry.instrument(client, collected.sdk)
        client.lock("held").lock()
        val waiting = onAnotherThread { client.lock("held").lockAsync().toCompletableFuture() }
        awaitTrue("it waits") { "steadlock_waiting{kind=\"lock\",group=\"none\"} 1" in client.metrics() }
        client.close()
        assertThrows(ExecutionException::class.java) { waiting.get(10, TimeUnit.SECONDS) }
        val spans = collected.spans(3).associateBy { it["outcome"] }
        assertEquals(setOf("granted", "lost", "closed"), spans.keys)
        assertEquals("closed", spans.getValue("lost")["reason"])
        assertEquals(StatusCode.UNSET, spans.getValue("lost").status.statusCode)
        assertEquals(StatusCode.ERROR, spans.getValue("closed").status.statusCode)
        assertEquals("Closed", spans.getValue("closed")["error.type"])
    }

    @Test
    fun `a password in a lock's name is not recorded`() =
        instrumented { client ->
            client.lock("redis://user:secret@host/0").withLock { }
            val spans = collected.spans(2)
            assertTrue(spans.all { "host" in it["lock"].orEmpty() && "secret" !in "$it" }, "$spans")
        }

    @Test
    fun `a RedLock client is observed too`() {
        val builder = Steadlock.builder().primaries("memory://span1", "memory://span2", "memory://span3").metrics()
        builder.connect().use { client ->
            SteadlockTelemetry.instrument(client, collected.sdk)
            client.lock("voucher:1").withLock {
                assertThrows(InvalidArgumentException::class.java) { client.lock("voucher:1").lock() }
            }
            val outcomes = collected.spans(3).map { it.name to it["outcome"] }.toSet()
            assertEquals(
                setOf(
                    "steadlock.wait" to "granted",
                    "steadlock.wait" to "refused",
                    "steadlock.hold" to "released",
                ),
                outcomes,
            )
        }
    }

    @Test
    fun `spans have exactly the names and attributes of the table`() {
        val table = JsonParser.parseString(Files.readString(METRICS)).asJsonObject["spans"].asJsonArray
        val known =
            table.associate { one ->
                one.asJsonObject["name"].asString to one.asJsonObject["attributes"].asJsonArray.map { it.asString }
            }
        `a lost lease has its reason`()
        val lost = collected.spans()
        collected.clear()
        `a wait without a grant has its outcome and no hold`()
        val spans = lost + collected.spans()
        val found = spans.groupBy(SpanData::getName) { attributesOf(it).keys }.mapValues { it.value.flatten() }
        assertEquals(known.keys, found.keys)
        // Only the test of outages has a degraded lease.
        assertEquals(known.mapValues { it.value.toSet() - "steadlock.degraded" }, found.mapValues { it.value.toSet() })
    }

    @Test
    fun `spans have no parent without a current span`() =
        instrumented { client ->
            client.lock("name").withLock { }
            assertTrue(collected.spans(2).none { it.parentSpanContext.isValid })
        }

    @Test
    fun `spans have the outcomes of an outage`() =
        RedisServer().use { server ->
            val builder = counting(server.url).commandTimeout(Duration.ofMillis(300))
            builder.breaker(1, Duration.ofSeconds(30)).connect().use { client ->
                SteadlockTelemetry.instrument(client, collected.sdk)
                server.kill()
                val lock = client.lock("name", LockOptions.DEFAULT.withWait(Duration.ZERO))
                assertThrows(UnavailableException::class.java) { lock.withLock { } }
                awaitTrue("the breaker opens") { "steadlock_breakers_open 1" in client.metrics() }
                val before = collected.spans(1).size
                for (policy in OnUnavailable.entries) {
                    runCatching { client.lock("name", LockOptions.DEFAULT.onUnavailable(policy)).withLock { } }
                }
                val spans = collected.spans(before + 4).drop(before)
                assertEquals(listOf("unavailable", "degraded", "skipped"), spans.filter(SpanData::waits).outcomes())
                val unavailable = spans.single { it["outcome"] == "unavailable" }
                assertEquals(StatusCode.ERROR, unavailable.status.statusCode)
                assertEquals("Unavailable", unavailable["error.type"])
                val hold = spans.single { !it.waits }
                assertEquals("true", hold["degraded"])
                assertNull(hold["token"])
                assertTrue((spans - unavailable).all { it.status.statusCode == StatusCode.UNSET }, "$spans")
            }
        }

    private fun List<SpanData>.outcomes() = map { it["outcome"] }

    private fun attributesOf(span: SpanData): Map<String, Any> = span.attributes.asMap().mapKeys { it.key.key }

    private companion object {
        val METRICS: Path = Path.of("../../ci/api/metrics.json")
        val TOKENLESS = setOf("read_lock", "semaphore", "multi_lock")
    }
}

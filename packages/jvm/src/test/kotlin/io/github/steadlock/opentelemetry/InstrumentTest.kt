package io.github.steadlock.opentelemetry

import io.github.steadlock.ClosedException
import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.Lease
import io.github.steadlock.LockOptions
import io.github.steadlock.Steadlock
import io.github.steadlock.SteadlockClient
import io.github.steadlock.Warnings
import io.github.steadlock.awaitTrue
import io.github.steadlock.internal.Exposition
import io.github.steadlock.millis
import io.github.steadlock.withLock
import io.opentelemetry.api.OpenTelemetry
import io.opentelemetry.context.Context
import io.opentelemetry.sdk.OpenTelemetrySdk
import io.opentelemetry.sdk.trace.ReadWriteSpan
import io.opentelemetry.sdk.trace.ReadableSpan
import io.opentelemetry.sdk.trace.SdkTracerProvider
import io.opentelemetry.sdk.trace.SpanProcessor
import io.opentelemetry.sdk.trace.data.SpanData
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.RepeatedTest
import org.junit.jupiter.api.Test
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import kotlin.concurrent.thread
import kotlin.time.Duration.Companion.milliseconds

/** Tests how the instrumentation of a client begins and ends, and that it does not affect locks. */
class InstrumentTest {
    @Test
    fun `a client is instrumented once at a time`() =
        Collected().use { collected ->
            counting().connect().use { client ->
                val first = SteadlockTelemetry.instrument(client, collected.sdk)
                val twice =
                    assertThrows(IllegalStateException::class.java) {
                        SteadlockTelemetry.instrument(client, collected.sdk)
                    }
                assertTrue("already" in twice.message.orEmpty(), twice.message)
                val lease = client.lock("held").lockAsync().toCompletableFuture().get()
                repeat(2) { first.close() }
                assertTrue(collected.metrics().keys.none { !it.endsWith(".duration") })
                client.lock("unseen").withLock { }
                // An acquisition that began before the close still gets its spans.
                lease.release()
                assertEquals(setOf("held"), collected.spans(2).mapTo(HashSet()) { it["lock"] })
                SteadlockTelemetry.instrument(client, collected.sdk).use { client.lock("seen").withLock { } }
                assertEquals(2, collected.spans(4).count { it["lock"] == "seen" })
            }
        }

    @Test
    fun `a client without metrics, and one that is closed, are refused`() {
        Steadlock.connect("memory://").use { client ->
            assertThrows(InvalidArgumentException::class.java) {
                SteadlockTelemetry.instrument(client, OpenTelemetry.noop())
            }
        }
        val closed = counting().connect().apply { close() }
        assertThrows(ClosedException::class.java) { SteadlockTelemetry.instrument(closed, OpenTelemetry.noop()) }
    }

    @Test
    fun `without an SDK nothing is recorded`() =
        counting().connect().use { client ->
            SteadlockTelemetry.instrument(client, OpenTelemetry.noop()).use {
                assertEquals(42, client.lock("name").withLock { 42 })
            }
        }

    @Test
    fun `an exception of a span processor does not reach callers, and is logged once`() {
        Warnings().use { warnings ->
            counting().connect().use { client ->
                val failing = sdk(onEnd = { error("the processor fails") }, onStart = { error("the processor fails") })
                SteadlockTelemetry.instrument(client, failing).use {
                    repeat(3) { assertEquals(42, client.lock("name").withLock { 42 }) }
                    val failed = runCatching { client.lock("name").lock(Duration.ofMillis(1)) }.exceptionOrNull()
                    assertTrue(failed is InvalidArgumentException, "$failed")
                }
            }
            assertEquals(1, warnings.count { "OpenTelemetry failed" in it })
        }
    }

    @Test
    fun `a blocking span processor delays neither locks nor close`() {
        val resume = CountDownLatch(1)
        val client = counting().connect()
        val blocking = sdk(onEnd = { resume.await() })
        try {
            SteadlockTelemetry.instrument(client, blocking)
            val lost = CountDownLatch(1)
            client.lock("expires").lock(Duration.ofMillis(100)).onLost { lost.countDown() }
            assertTrue(lost.await(10, TimeUnit.SECONDS))
            repeat(100) { client.lock("name:$it").withLock { } }
            val took = millis(client::close)
            assertTrue(took < CLOSE_MS, "close took $took ms")
        } finally {
            resume.countDown()
        }
    }

    @Test
    fun `a span processor can use the observed client`() =
        counting().connect().use { client ->
            val (lock, done) = client.lock("of the processor") to CountDownLatch(1)
            val processing =
                sdk(onEnd = {
                    if (done.count == 1L) {
                        lock.withLock { }
                        done.countDown()
                    }
                })
            SteadlockTelemetry.instrument(client, processing).use {
                client.lock("name").withLock { }
                assertTrue(done.await(10, TimeUnit.SECONDS))
            }
        }

    /** Runs threads, stages and coroutines at once; some of them give up. */
    @RepeatedTest(50)
    fun `each wait and each lease ends once in races`() =
        Collected().use { collected ->
            counting().connect().use { client ->
                val telemetry = SteadlockTelemetry.instrument(client, collected.sdk)
                val lock = client.lock("stock:1", LockOptions.DEFAULT.withWait(Duration.ofSeconds(10)))
                val threads =
                    List(3) { thread { repeat(ROUNDS) { lock.withLock { } } } } +
                        thread { repeat(ROUNDS) { if (lock.tryLock()) lock.unlock() } } +
                        thread { repeat(ROUNDS) { cancelSoon(lock.lockAsync().toCompletableFuture()) } }
                runBlocking {
                    coroutineScope {
                        repeat(3) {
                            launch(Dispatchers.Default) {
                                repeat(ROUNDS) { client.withLock("stock:2") { } }
                                runCatching { client.withLock("stock:1", wait = 1.milliseconds) { } }
                            }
                        }
                    }
                }
                threads.forEach(Thread::join)
                awaitTrue("all has ended") {
                    val waits = collected.spans().count(SpanData::waits)
                    val over = client.numbers("steadlock_held") + client.numbers("steadlock_waiting") == 0L
                    over && waits.toLong() == client.numbers("steadlock_wait_seconds_count")
                }
                awaitTrue("all granted leases have ended") {
                    collected.spans().count { it["outcome"] == "granted" } == collected.spans().count { !it.waits }
                }
                telemetry.close()
                val holds = client.numbers("steadlock_hold_seconds_count")
                val (waited, held) = collected.spans().partition(SpanData::waits)
                assertEquals(WAITS, waited.size)
                assertEquals(waited.count { it["outcome"] == "granted" }, held.size)
                // The core may have granted a lock to a caller that gave up at the same moment.
                assertTrue(held.size <= holds, "${held.size} of $holds")
                assertTrue(held.all { it["outcome"] == "released" })
            }
        }

    private fun cancelSoon(stage: CompletableFuture<Lease>) {
        if (!stage.cancel(true)) stage.get().release()
    }

    private fun SteadlockClient.numbers(name: String): Long =
        Exposition(metrics()).samples.filter { it.name == name }.sumOf { it.value.toLong() }

    private fun sdk(onStart: () -> Unit = {}, onEnd: () -> Unit): OpenTelemetry {
        val processor =
            object : SpanProcessor {
                override fun onStart(parentContext: Context, span: ReadWriteSpan) = onStart()

                override fun isStartRequired() = true

                override fun onEnd(span: ReadableSpan) = onEnd()

                override fun isEndRequired() = true
            }
        val provider = SdkTracerProvider.builder().addSpanProcessor(processor).build()
        return OpenTelemetrySdk.builder().setTracerProvider(provider).build()
    }

    private companion object {
        const val ROUNDS = 20
        const val WAITS = 5 * ROUNDS + 3 * (ROUNDS + 1)

        /** Far more than the time limit of close. */
        const val CLOSE_MS = 5_000L
    }
}

import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.LockOptions
import io.github.steadlock.LockTimeoutException
import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import io.github.steadlock.Steadlock
import io.github.steadlock.withLock
import io.github.steadlock.withPermits
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.TimeUnit
import java.util.logging.Handler
import java.util.logging.Level
import java.util.logging.LogRecord
import java.util.logging.Logger
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

private val SLF4J = org.slf4j.Logger::class.java

/** Uses the library like a Kotlin program, compiled and run with the versions in the pom. */
class ConsumerTest {
    private val client = Steadlock.builder().url("memory://").lease(Duration.ofSeconds(5)).connect()

    @Test
    fun `the versions are the requested ones`() {
        println("Kotlin ${KotlinVersion.CURRENT}")
        assertEquals(System.getProperty("expected.kotlin") ?: "${KotlinVersion.CURRENT}", "${KotlinVersion.CURRENT}")
    }

    @Test
    fun `the log is written`() {
        assertEquals(System.getProperty("expected.slf4j"), SLF4J.`package`.implementationVersion)
        val lines = CopyOnWriteArrayList<LogRecord>()
        val handler =
            object : Handler() {
                override fun publish(record: LogRecord) {
                    lines += record
                }

                override fun flush() = Unit

                override fun close() = Unit
            }
        val logger = Logger.getLogger("io.github.steadlock")
        logger.addHandler(handler)
        try {
            val lost = CompletableFuture<LostReason>()
            client.lock("reported").lock(Duration.ofMillis(100)).onLost(lost::complete)
            assertEquals(LostReason.EXPIRED, lost.get(10, TimeUnit.SECONDS))
            client.close()
        } finally {
            logger.removeHandler(handler)
        }
        val line = lines.single { "lock \"reported\" is lost" in it.message }
        assertEquals(Level.INFO, line.level)
    }

    @Test
    fun `OpenTelemetry and Micrometer are optional`() {
        val parts =
            mapOf(
                "io.github.steadlock.opentelemetry.SteadlockTelemetry" to "io/opentelemetry/api/OpenTelemetry",
                "io.github.steadlock.micrometer.SteadlockMetrics" to "io/micrometer/core/instrument/binder/MeterBinder",
            )
        for ((part, missing) in parts) {
            assertThrows(ClassNotFoundException::class.java) { Class.forName(missing.replace('/', '.')) }
            val failed = assertThrows(NoClassDefFoundError::class.java) { Class.forName(part).methods }
            assertTrue(missing in failed.message.orEmpty(), failed.message)
        }
        val counting = Steadlock.builder().url("memory://").metrics().connect()
        counting.use { it.lock("stock:1").withLock {} }
        assertTrue("steadlock_held{kind=\"lock\",group=\"stock\"} 0" in counting.metrics())
    }

    @Test
    fun `threads lock`() {
        val lock = client.lock("name", LockOptions.DEFAULT.withWait(Duration.ofSeconds(1)).withoutFencing())
        assertTrue(lock.tryLock(1, 30, TimeUnit.SECONDS))
        assertEquals(1, lock.holdCount)
        assertNull(lock.lease?.token)
        lock.unlock()
        assertNull(lock.lease)
        assertEquals(42, lock.withLock { 42 })
        assertEquals(1, client.semaphore("permits", 3).withPermits(2) { client.semaphore("permits", 3).available() })
        val lost = CompletableFuture<LostReason>()
        client.lock("expires").lock(Duration.ofMillis(100)).onLost(lost::complete)
        assertEquals(LostReason.EXPIRED, lost.get(10, TimeUnit.SECONDS))
    }

    @Test
    fun `coroutines lock, time out and are cancelled`() =
        runBlocking {
            val token = client.withLock("name", wait = 1.seconds, lease = 5.seconds, renew = true) { it.token }
            assertTrue(token != null)
            assertEquals(2, client.withPermits(client.semaphore("permits", 3), 2) { 2 })
            client.withLock("name") { outer ->
                client.withLock("name", within = outer) { assertTrue(it.isValid) }
                val refused = runCatching { client.withLock("name") {} }.exceptionOrNull()
                assertTrue(refused is InvalidArgumentException, "$refused")
            }
            // A nested call is refused if the outer block waits for its caller. This check uses internals of the
            // coroutines library, so it is tested with each version.
            val numbers = flow { client.withLock("name") { emit(1) } }
            assertEquals(listOf(1), numbers.toList())
            for (context in listOf(Dispatchers.Default, NonCancellable)) {
                val nested = runCatching { numbers.collect { withContext(context) { client.withLock("name") {} } } }
                assertTrue(nested.exceptionOrNull() is InvalidArgumentException, "$nested")
            }
            val child = runCatching { numbers.collect { coroutineScope { launch { client.withLock("name") {} } } } }
            assertTrue(child.exceptionOrNull() is InvalidArgumentException, "$child")
            val held = client.lock("held").lockAsync().toCompletableFuture().get()
            val waiting = launch(Dispatchers.Default) { client.withLock("held") { throw CancellationException() } }
            waiting.cancelAndJoin()
            try {
                client.withLock("held", wait = 50.milliseconds) { error("granted") }
            } catch (refused: LockTimeoutException) {
                assertEquals("acquire", refused.operation)
            }
            assertEquals(ReleaseOutcome.RELEASED, held.release())
        }
}

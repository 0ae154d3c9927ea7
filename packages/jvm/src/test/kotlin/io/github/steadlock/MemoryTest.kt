package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.nio.file.Files
import java.nio.file.Path
import java.time.Duration

/**
 * Tests that locks and leases that have ended use no memory, neither on the heap nor in the native part. Uses 10,000 of
 * each, or 100,000 if `STEADLOCK_LONG` is set.
 */
class MemoryTest {
    private val many = if (System.getenv("STEADLOCK_LONG") == null) 10_000 else 100_000

    @Test
    fun `many distinct names leave no memory allocated`() =
        assertFlat { client, number -> client.lock("name-$number").withLock { } }

    @Test
    fun `many expired leases leave no memory allocated`() =
        assertFlat { client, number -> client.lock("expired-$number").lock(SHORT) }

    /** Measures several rounds. The first round fills caches and pools; later rounds must not add to the memory. */
    private fun assertFlat(use: (SteadlockClient, Int) -> Unit) {
        RedisServer().use { server ->
            Steadlock.connect(server.url).use { client ->
                var number = 0
                val round = {
                    repeat(many) { use(client, number++) }
                    awaitTrue("all have expired", 60_000) { server.ask { it.keys("expired-*") }.isEmpty() }
                    used()
                }
                round()
                val (heap, resident) = round()
                round()
                // The clean-up actions for garbage become garbage themselves only after they ran.
                awaitTrue("the heap is as large as before: $heap kB, then ${used().first} kB", 10_000) {
                    used().first - heap < ALLOWED_KB
                }
                val (heapAfter, residentAfter) = used()
                println("$many more: heap $heap -> $heapAfter kB, resident $resident -> $residentAfter kB")
                assertTrue(residentAfter - resident < RESIDENT_KB, "the process grew by ${residentAfter - resident} kB")
            }
        }
    }

    /** Returns the kilobytes of the heap and of the process. */
    private fun used(): Pair<Long, Long> {
        repeat(3) { System.gc() }
        val runtime = Runtime.getRuntime()
        val status = Path.of("/proc/self/status")
        val resident =
            if (!Files.exists(status)) {
                0
            } else {
                Files.readAllLines(status).first {
                    it.startsWith("VmRSS")
                }.filter(Char::isDigit).toLong()
            }
        return (runtime.totalMemory() - runtime.freeMemory()) / 1_024 to resident
    }

    private companion object {
        val SHORT: Duration = Duration.ofMillis(100)

        /** A leak of a hundred bytes per name would be 1,000 kB. */
        const val ALLOWED_KB = 500L

        /** The JVM itself grows and shrinks its heap by some megabytes. */
        const val RESIDENT_KB = 24_000L
    }
}

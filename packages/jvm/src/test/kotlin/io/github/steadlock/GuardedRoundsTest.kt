package io.github.steadlock

import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assumptions.assumeTrue
import org.junit.jupiter.api.Test
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger

/** Runs 1,000 rounds that read a number, sleep, and write the number plus one. Only the lock prevents lost updates. */
class GuardedRoundsTest {
    @Test
    fun `10,000 virtual threads lose no update`() {
        val start =
            try {
                Thread::class.java.getMethod("startVirtualThread", Runnable::class.java)
            } catch (_: NoSuchMethodException) {
                null
            }
        assumeTrue(start != null, "this JVM has no virtual threads")
        loseNoUpdate(10_000) { start?.invoke(null, it) }
    }

    @Test
    fun `200 platform threads lose no update`() = loseNoUpdate(200) { Thread(it).start() }

    /**
     * Divides the rounds among the threads. Every thread acquires the lock at least once; a thread without a round only
     * checks that it is alone.
     */
    private fun loseNoUpdate(threads: Int, start: (Runnable) -> Unit) {
        val number = AtomicInteger()
        val (begin, done) = CountDownLatch(1) to CountDownLatch(threads)
        val entered = AtomicInteger()
        Steadlock.connect(server.url).use { client ->
            val lock = client.lock("rounds-$threads")
            repeat(threads) { index ->
                val rounds = ROUNDS / threads + if (index < ROUNDS % threads) 1 else 0
                start {
                    begin.await()
                    repeat(rounds.coerceAtLeast(1)) {
                        lock.withLock {
                            check(entered.incrementAndGet() == 1) { "two hold the lock" }
                            if (rounds > 0) {
                                val read = number.get()
                                Thread.sleep(1)
                                number.set(read + 1)
                            }
                            entered.decrementAndGet()
                        }
                    }
                    done.countDown()
                }
            }
            begin.countDown()
            done.await(300, TimeUnit.SECONDS)
            assertEquals(0, done.count, "threads that did not end")
            assertEquals(ROUNDS, number.get())
        }
    }

    private companion object {
        const val ROUNDS = 1_000
        val server = RedisServer()

        @JvmStatic
        @AfterAll
        fun stop() = server.close()
    }
}

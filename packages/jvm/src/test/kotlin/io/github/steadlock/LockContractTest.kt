package io.github.steadlock

import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.TestFactory
import java.util.UUID
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CountDownLatch
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit.DAYS
import java.util.concurrent.TimeUnit.MILLISECONDS
import java.util.concurrent.TimeUnit.SECONDS
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.locks.Lock
import java.util.concurrent.locks.ReentrantLock

/**
 * Tests the contract of the JDK's `Lock`, as a table. Each row runs for the JDK's own lock and for each reentrant lock
 * of this library, on the embedded store and on a server.
 */
class LockContractTest {
    @TestFactory
    fun `the contract of Lock`(): List<DynamicTest> =
        SUBJECTS.flatMap { (subject, make) ->
            ROWS.map { (row, check) -> dynamicTest("$subject: $row") { make().use { check(it) } } }
        }

    /** A lock under test. [holds] returns the number of the calling thread's holds. */
    class Subject(val lock: Lock, val holds: () -> Int, private val close: () -> Unit) : AutoCloseable {
        val isHeld: Boolean
            get() = holds() > 0

        override fun close() = close.invoke()

        /** Runs [work] while another thread holds the lock. */
        fun <T> whileAnotherHolds(work: () -> T): T {
            val (held, done) = CountDownLatch(1) to CountDownLatch(1)
            val holder =
                inBackground {
                    lock.lock()
                    held.countDown()
                    done.await()
                    lock.unlock()
                }
            held.await()
            return try {
                work()
            } finally {
                done.countDown()
                holder.get(30, SECONDS)
            }
        }

        fun isFree(): Boolean =
            onAnotherThread { lock.tryLock(5, SECONDS).also { if (it) lock.unlock() } }
    }

    companion object {
        private val server = RedisServer()

        @JvmStatic
        @AfterAll
        fun stop() = server.close()

        private val SUBJECTS: List<Pair<String, () -> Subject>> =
            listOf("ReentrantLock" to { ReentrantLock().let { Subject(it, it::getHoldCount) {} } }) +
                listOf("memory" to "memory://", "redis" to server.url).flatMap { (where, url) ->
                    listOf<Pair<String, (SteadlockClient) -> NamedLock>>(
                        "lock" to { it.lock(name()) },
                        "fairLock" to { it.fairLock(name()) },
                        "write side" to { it.readWriteLock(name()).write },
                    ).map { (kind, lock) -> "$kind on $where" to { subject(Steadlock.connect(url), lock) } }
                }

        private fun subject(client: SteadlockClient, make: (SteadlockClient) -> NamedLock): Subject =
            make(client).let { Subject(it, it::holdCount, client::close) }

        private fun name() = "contract-${UUID.randomUUID()}"

        private val ROWS: List<Pair<String, (Subject) -> Unit>> =
            listOf(
                "lock and unlock count holds" to { subject ->
                    repeat(3) { subject.lock.lock() }
                    assertEquals(3, subject.holds())
                    repeat(2) { subject.lock.unlock() }
                    assertTrue(subject.isHeld)
                    subject.lock.unlock()
                    assertFalse(subject.isHeld)
                    assertTrue(subject.isFree())
                },
                "every way to acquire the lock counts" to { subject ->
                    subject.lock.lock()
                    subject.lock.lockInterruptibly()
                    assertTrue(subject.lock.tryLock())
                    assertTrue(subject.lock.tryLock(1, SECONDS))
                    assertTrue(subject.lock.tryLock(0, SECONDS))
                    assertEquals(5, subject.holds())
                    repeat(5) { subject.lock.unlock() }
                    assertTrue(subject.isFree())
                },
                "unlock without a hold is IllegalMonitorState" to { subject ->
                    assertThrows(IllegalMonitorStateException::class.java) { subject.lock.unlock() }
                },
                "unlock by another thread is IllegalMonitorState and frees nothing" to { subject ->
                    subject.whileAnotherHolds {
                        assertThrows(IllegalMonitorStateException::class.java) { subject.lock.unlock() }
                        assertFalse(subject.lock.tryLock())
                        assertEquals(0, subject.holds())
                    }
                },
                "one unlock too many is IllegalMonitorState" to { subject ->
                    subject.lock.lock()
                    subject.lock.unlock()
                    assertThrows(IllegalMonitorStateException::class.java) { subject.lock.unlock() }
                },
                "a failed attempt leaves nothing to release" to { subject ->
                    subject.whileAnotherHolds {
                        assertFalse(subject.lock.tryLock())
                        assertFalse(subject.lock.tryLock(20, MILLISECONDS))
                        assertThrows(IllegalMonitorStateException::class.java) { subject.lock.unlock() }
                        assertFalse(subject.lock.tryLock())
                    }
                    assertTrue(subject.isFree())
                },
                "an attempt with a negative time does not wait" to { subject ->
                    subject.whileAnotherHolds { assertFalse(subject.lock.tryLock(Long.MIN_VALUE, DAYS)) }
                    assertTrue(subject.lock.tryLock(-1, SECONDS))
                    subject.lock.unlock()
                },
                "an attempt with the longest time waits" to { subject ->
                    val granted =
                        subject.whileAnotherHolds {
                            val waiting = waiting { subject.lock.tryLock(Long.MAX_VALUE, DAYS) }
                            assertFalse(waiting.second.isDone)
                            waiting.second
                        }
                    assertTrue(granted.get(30, SECONDS))
                },
                "exactly one of many attempts at once is granted" to { subject ->
                    val (ready, go, tried) = Triple(
                        CountDownLatch(ATTEMPTS),
                        CountDownLatch(1),
                        CountDownLatch(ATTEMPTS),
                    )
                    val granted = AtomicInteger()
                    val attempts =
                        List(ATTEMPTS) {
                            inBackground {
                                ready.countDown()
                                go.await()
                                val isGranted = subject.lock.tryLock()
                                if (isGranted) granted.incrementAndGet()
                                tried.countDown()
                                tried.await()
                                if (isGranted) subject.lock.unlock()
                            }
                        }
                    ready.await()
                    go.countDown()
                    attempts.forEach { it.get(30, SECONDS) }
                    assertEquals(1, granted.get())
                    assertTrue(subject.isFree())
                },
                "lock waits, and keeps an interrupt for later" to { subject ->
                    val (thread, waiting) =
                        subject.whileAnotherHolds {
                            waiting {
                                subject.lock.lock()
                                subject.lock.unlock()
                                Thread.interrupted()
                            }.also { it.first.interrupt() }
                        }
                    assertTrue(waiting.get(30, SECONDS))
                    thread.join(30_000)
                },
                "tryLock without a time ignores an interrupt, and keeps it" to { subject ->
                    Thread.currentThread().interrupt()
                    assertTrue(subject.lock.tryLock())
                    assertTrue(Thread.interrupted())
                    subject.lock.unlock()
                },
                "an interrupted thread does not acquire interruptibly, even if the lock is free" to { subject ->
                    for (acquire in interruptibly(subject.lock)) {
                        Thread.currentThread().interrupt()
                        assertThrows(InterruptedException::class.java) { acquire() }
                        assertFalse(Thread.interrupted())
                        assertEquals(0, subject.holds())
                    }
                    assertTrue(subject.isFree())
                },
                "an interrupt ends an interruptible wait, and nothing stays behind" to { subject ->
                    subject.whileAnotherHolds {
                        for (acquire in interruptibly(subject.lock)) {
                            val (thread, waiting) = waiting(acquire)
                            thread.interrupt()
                            val failed = assertThrows(ExecutionException::class.java) { waiting.get(30, SECONDS) }
                            assertTrue(failed.cause is InterruptedException, "${failed.cause}")
                        }
                    }
                    assertTrue(subject.isFree())
                },
                "only the thread that acquired can unlock, even if others use the same object" to { subject ->
                    subject.lock.lock()
                    onAnotherThread {
                        assertFalse(subject.lock.tryLock())
                        assertEquals(0, subject.holds())
                        assertThrows(IllegalMonitorStateException::class.java) { subject.lock.unlock() }
                    }
                    assertEquals(1, subject.holds())
                    subject.lock.unlock()
                    assertTrue(subject.isFree())
                },
                "a thread that acquires after a wait has one hold" to { subject ->
                    val (_, waiting) =
                        subject.whileAnotherHolds {
                            waiting {
                                subject.lock.lock()
                                subject.holds().also { subject.lock.unlock() }
                            }
                        }
                    assertEquals(1, waiting.get(30, SECONDS))
                },
                "a NamedLock has a lease only on the thread that holds it" to { subject ->
                    (subject.lock as? NamedLock)?.let { lock ->
                        assertNull(lock.lease)
                        lock.lock()
                        assertTrue(lock.lease?.isValid == true)
                        assertNull(onAnotherThread { lock.lease })
                        lock.unlock()
                        assertNull(lock.lease)
                    }
                },
            )

        private const val ATTEMPTS = 16

        private fun interruptibly(lock: Lock): List<() -> Unit> =
            listOf({ lock.lockInterruptibly() }, { lock.tryLock(30, SECONDS) })

        private fun <T> inBackground(work: () -> T): CompletableFuture<T> = started(work).second

        /** Starts [work] and returns when it waits or has ended. */
        private fun <T> waiting(work: () -> T): Pair<Thread, CompletableFuture<T>> =
            started(work).also { (thread, result) ->
                awaitTrue("the thread waits") { result.isDone || thread.state in WAITING }
            }

        private fun <T> started(work: () -> T): Pair<Thread, CompletableFuture<T>> {
            val result = CompletableFuture<T>()
            val thread =
                Thread {
                    runCatching(work).fold(result::complete, result::completeExceptionally)
                }
            thread.isDaemon = true
            thread.start()
            return thread to result
        }

        private val WAITING = setOf(Thread.State.WAITING, Thread.State.TIMED_WAITING)
    }
}

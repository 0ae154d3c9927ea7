package io.github.steadlock

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
import java.util.UUID
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger
import java.util.concurrent.atomic.AtomicReference
import java.util.concurrent.locks.LockSupport

/** Tests the reentrant lock on every transport. */
abstract class LockBehaviour {
    protected abstract val url: String
    private val name = "lock-${UUID.randomUUID()}"
    private val client by lazy { Steadlock.connect(url) }
    private val other by lazy { Steadlock.connect(url) }
    private val lock by lazy { client.lock(name) }

    @AfterEach
    fun close() {
        client.close()
        other.close()
    }

    /** Uses 200 ms, which are too short for an auto-renewed lease and long enough for a fixed one. */
    @Test
    fun `a lease is renewed as its options say`() {
        val short = Duration.ofMillis(200)
        val options = LockOptions.DEFAULT.withLease(Duration.ofSeconds(5)).renewed()
        val renewed = client.lock(name, options)
        renewed.withLock { lease ->
            assertTrue(lease.remaining <= Duration.ofSeconds(5) && lease.remaining > Duration.ofSeconds(4))
        }
        for (tooShort in listOf(options.withLease(short), LockOptions.DEFAULT.renewed().withLease(short))) {
            val failed = assertThrows(InvalidArgumentException::class.java) { client.lock(name, tooShort).lock() }
            assertTrue(Regex("200ms is too short to be renewed.*300ms").containsMatchIn(failed.message.orEmpty()))
        }
        assertRefused(renewed.lockAsync(LockOptions.DEFAULT.withLease(short).renewed()))
        assertRefused(client.lock(name, LockOptions.DEFAULT.withLease(short)).lockAsync(LockOptions.DEFAULT.renewed()))
        // A lease that only the call sets is fixed.
        renewed.lockAsync(LockOptions.DEFAULT.withLease(short)).toCompletableFuture().get().release()
        renewed.lock(short).release()
        assertTrue(renewed.tryLock(Duration.ZERO, short))
        renewed.unlock()
        val semaphore = client.semaphore("$name:s", 1, options)
        semaphore.tryAcquire(1, Duration.ZERO, short)!!.release()
        assertFalse(renewed.isLocked)
    }

    private fun assertRefused(stage: CompletionStage<Lease>) {
        val failed = assertThrows(ExecutionException::class.java) { stage.toCompletableFuture().get() }
        assertInstanceOf(InvalidArgumentException::class.java, failed.cause)
    }

    @Test
    fun `a thread re-enters and holds until the last unlock`() {
        lock.lock()
        assertTrue(lock.tryLock())
        assertEquals(2, lock.holdCount)
        lock.unlock()
        assertTrue(lock.isHeldByCurrentThread && lock.isLocked)
        lock.unlock()
        assertFalse(lock.isHeldByCurrentThread || lock.isLocked)
    }

    @Test
    fun `another lock object of the same name is the same lock`() {
        lock.lock()
        assertTrue(client.lock(name).isHeldByCurrentThread)
        client.lock(name).unlock()
        assertFalse(lock.isLocked)
    }

    @Test
    fun `a second thread is not reentrant with the first`() {
        lock.lock()
        onAnotherThread {
            assertFalse(lock.tryLock())
            assertFalse(lock.isHeldByCurrentThread)
            assertEquals(0, lock.holdCount)
        }
        lock.unlock()
    }

    @Test
    fun `unlock by another thread is refused and has no effect`() {
        lock.lock()
        onAnotherThread {
            val refused = assertThrows(IllegalMonitorStateException::class.java) { lock.unlock() }
            assertInstanceOf(NotOwnerException::class.java, refused.cause)
        }
        assertTrue(lock.isLocked)
        lock.unlock()
        assertThrows(IllegalMonitorStateException::class.java) { lock.unlock() }
    }

    @Test
    fun `tryLock times out after its wait`() {
        lock.lock()
        assertFalse(other.lock(name).tryLock(250, TimeUnit.MILLISECONDS))
        assertFalse(other.lock(name).tryLock(-1, TimeUnit.SECONDS))
        assertFalse(other.lock(name).tryLock(Duration.ofMillis(250), Duration.ofSeconds(5)))
        assertFalse(other.lock(name).tryLock(Duration.ZERO))
    }

    @Test
    fun `a lease has its token and remaining time`() {
        lock.lock()
        val lease = lock.held
        assertEquals(name, lease.name)
        assertTrue(lease.isValid)
        assertTrue(lease.remaining > Duration.ofSeconds(20) && lease.remaining < Duration.ofSeconds(30))
        lock.unlock()
        assertFalse(lease.isValid)
        assertEquals(Duration.ZERO, lease.remaining)
        assertNull(lock.lease)
    }

    @Test
    fun `a fixed lease lasts for its length and can be extended`() {
        val lease = lock.lock(Duration.ofSeconds(5))
        assertTrue(lease.remaining <= Duration.ofSeconds(5))
        lease.extend(Duration.ofSeconds(20))
        assertTrue(lease.remaining > Duration.ofSeconds(15))
        assertEquals(ReleaseOutcome.RELEASED, lease.release())
        assertThrows(SteadlockException::class.java) { lease.extend() }
    }

    @Test
    fun `unlock throws LockLost, even if it is the first to find the loss`() {
        lock.lock()
        other.forceRelease(other.lock(name))
        assertEquals(LostReason.EXPIRED, assertThrows(LockLostException::class.java) { lock.unlock() }.reason)
        assertThrows(IllegalMonitorStateException::class.java) { lock.unlock() }

        lock.lock()
        other.forceRelease(other.lock(name))
        other.lock(name).lock()
        assertEquals(LostReason.STOLEN, assertThrows(LockLostException::class.java) { lock.unlock() }.reason)
        assertTrue(other.lock(name).isHeldByCurrentThread)
        other.lock(name).unlock()
    }

    @Test
    fun `release returns the reason for a loss, and the scope throws`() {
        val lease = lock.lock(Duration.ofSeconds(10))
        other.forceRelease(other.lock(name))
        assertEquals(ReleaseOutcome.EXPIRED, lease.release())
        assertEquals(LostReason.EXPIRED, assertThrows(LockLostException::class.java, lease::close).reason)
    }

    @Test
    fun `a lost lease is not held, and stays until its release`() {
        val bounded = client.lock(name, LockOptions.DEFAULT.withMaxHold(Duration.ofSeconds(1)))
        bounded.lock()
        bounded.lock()
        assertEquals(2, bounded.holdCount)
        val lease = bounded.held
        awaitTrue("the lease is lost") { lease.lostReason == LostReason.MAX_HOLD }
        assertFalse(bounded.isHeldByCurrentThread)
        assertEquals(0, bounded.holdCount)
        assertEquals(LostReason.MAX_HOLD, bounded.lease?.lostReason)
        repeat(2) { assertThrows(LockLostException::class.java) { bounded.unlock() } }
        assertNull(bounded.lease)
    }

    @Test
    fun `a second release has no effect`() {
        val first = lock.lock(Duration.ofSeconds(10))
        lock.lock()
        assertEquals(ReleaseOutcome.RELEASED, first.release())
        assertEquals(ReleaseOutcome.RELEASED, first.release())
        assertEquals(1, lock.holdCount)
        lock.unlock()
        assertEquals(ReleaseOutcome.RELEASED, first.release())
        assertFalse(lock.isLocked)
    }

    @Test
    fun `a lease can be released by another thread`() {
        lock.lock()
        val lease = lock.held
        assertEquals(ReleaseOutcome.RELEASED, onAnotherThread { lease.release() })
        assertFalse(lock.isHeldByCurrentThread)
    }

    @Test
    fun `each call with a lost lease gives the reason`() {
        val bounded = client.lock(name, LockOptions.DEFAULT.withMaxHold(Duration.ofMillis(100)))
        bounded.lock()
        val lease = bounded.held
        awaitTrue("the lease is lost") { lease.lostReason == LostReason.MAX_HOLD }
        val async = bounded.lockAsync(LockOptions.DEFAULT.within(lease)).toCompletableFuture()
        val thrown =
            listOf(
                assertThrows(LockLostException::class.java) { lease.extend() },
                assertThrows(LockLostException::class.java) { bounded.lock() },
                assertThrows(LockLostException::class.java) { bounded.tryLock() },
                assertThrows(ExecutionException::class.java) { async.get(5, TimeUnit.SECONDS) }.cause,
                assertThrows(LockLostException::class.java) { bounded.unlock() },
                assertThrows(LockLostException::class.java) { lease.close() },
            )
        assertEquals(List(6) { LostReason.MAX_HOLD }, thrown.map { (it as LockLostException).reason })
    }

    @Test
    fun `an expired fixed lease is forgotten, and its thread can acquire the lock again`() {
        val lease = lock.lock(Duration.ofMillis(200))
        awaitTrue("the lease is lost") { lease.lostReason == LostReason.EXPIRED }
        assertEquals(0, lock.holdCount)
        val refused = assertThrows(IllegalMonitorStateException::class.java) { lock.unlock() }
        assertInstanceOf(NotOwnerException::class.java, refused.cause)
        val again = lock.lock(Duration.ofSeconds(20))
        val within = lock.lockAsync(LockOptions.DEFAULT.within(lease)).toCompletableFuture()
        val thrown =
            listOf(
                assertThrows(LockLostException::class.java) { lease.extend() },
                assertThrows(ExecutionException::class.java) { within.get(5, TimeUnit.SECONDS) }.cause,
                assertThrows(LockLostException::class.java) { lease.close() },
            )
        assertEquals(List(3) { LostReason.EXPIRED }, thrown.map { (it as LockLostException).reason })
        assertEquals(ReleaseOutcome.EXPIRED, lease.release())
        assertTrue(again.isValid)
        lock.unlock()
    }

    @Test
    fun `an interrupt ends a wait and leaves no record`() {
        lock.lock()
        val thrown = AtomicReference<Throwable>()
        val waiting =
            Thread {
                thrown.set(runCatching { other.lock(name).lockInterruptibly() }.exceptionOrNull())
            }
        waiting.start()
        awaitTrue("the thread waits") { waiting.state == Thread.State.WAITING }
        waiting.interrupt()
        waiting.join(5_000)
        assertInstanceOf(InterruptedException::class.java, thrown.get())
        lock.unlock()
        assertTrue(lock.tryLock(Duration.ofSeconds(20)))
    }

    @Test
    fun `interrupts at any time leave no record`() {
        repeat(100) { attempt ->
            val trying =
                Thread {
                    try {
                        lock.lockInterruptibly()
                        lock.unlock()
                    } catch (_: InterruptedException) {
                        // The interrupt of this test.
                    }
                }
            trying.start()
            LockSupport.parkNanos(attempt * 20_000L)
            trying.interrupt()
            trying.join(5_000)
        }
        assertTrue(other.lock(name).tryLock(Duration.ofSeconds(5)))
    }

    @Test
    fun `two hundred virtual threads exclude each other`() {
        val turns = AtomicInteger()
        lock.lock()
        val threads = List(200) { startLight { lock.withLock { turns.incrementAndGet() } } }
        lock.unlock()
        threads.forEach { it.join(30_000) }
        assertEquals(200, turns.get())
    }

    @Test
    fun `an interrupted thread does not start to wait`() {
        Thread.currentThread().interrupt()
        assertThrows(InterruptedException::class.java) { lock.tryLock(1, TimeUnit.SECONDS) }
        assertFalse(lock.isLocked)
    }

    @Test
    fun `lock keeps an interrupt for later`() {
        Thread.currentThread().interrupt()
        lock.lock()
        assertTrue(Thread.interrupted())
        lock.unlock()
    }

    @Test
    fun `leases of lockAsync exclude each other even on one thread`() {
        val first = lock.lockAsync().toCompletableFuture().get(10, TimeUnit.SECONDS)
        val second = lock.lockAsync().toCompletableFuture()
        assertFalse(lock.tryLock())
        assertFalse(second.isDone)
        first.release()
        assertEquals(ReleaseOutcome.RELEASED, second.get(10, TimeUnit.SECONDS).release())
    }

    @Test
    fun `lockAsync re-enters its given lease`() {
        val outer = lock.lockAsync().toCompletableFuture().get(10, TimeUnit.SECONDS)
        val within = LockOptions.DEFAULT.within(outer)
        val inner = lock.lockAsync(within).toCompletableFuture().get(10, TimeUnit.SECONDS)
        assertEquals(outer.token, inner.token)
        outer.release()
        assertTrue(lock.isLocked)
        inner.releaseAsync().toCompletableFuture().get(10, TimeUnit.SECONDS)
        assertFalse(lock.isLocked)
    }

    @Test
    fun `lockAsync with a wait fails with LockTimeout and the holder`() {
        lock.lock()
        val waiting = lock.lockAsync(LockOptions.DEFAULT.withWait(Duration.ZERO)).toCompletableFuture()
        val failed = assertThrows(ExecutionException::class.java) { waiting.get(10, TimeUnit.SECONDS) }
        assertInstanceOf(LockTimeoutException::class.java, failed.cause)
        val remote = other.lock(name).lockAsync(LockOptions.DEFAULT.withWait(Duration.ZERO)).toCompletableFuture()
        val refused = assertThrows(ExecutionException::class.java) { remote.get(10, TimeUnit.SECONDS) }
        assertNotNull((refused.cause as LockTimeoutException).holder)
    }

    @Test
    fun `withLock returns the result and throws the exception of its body`() {
        assertEquals(42, lock.withLock { 42 })
        assertThrows(IllegalStateException::class.java) { lock.withLock { error("the body's own") } }
        assertFalse(lock.isLocked)
    }

    @Test
    fun `a lock held by an ended thread is released`() {
        onAnotherThread { lock.lock() }
        assertTrue(lock.tryLock(Duration.ofSeconds(10)))
    }

    @Test
    fun `closing loses the leases and then releases them`() {
        val lost = CompletableFuture<LostReason>()
        lock.lock()
        val lease = lock.held
        lease.onLost(lost::complete)
        val waiting = onAnotherThread { lock.lockAsync() }.toCompletableFuture()
        client.close()
        client.close()
        assertEquals(LostReason.CLOSED, lost.get(5, TimeUnit.SECONDS))
        assertEquals(LostReason.CLOSED, lease.lostReason)
        assertFalse(lease.isValid)
        assertInstanceOf(
            ClosedException::class.java,
            assertThrows(ExecutionException::class.java) { waiting.get(5, TimeUnit.SECONDS) }.cause,
        )
        assertTrue(other.lock(name).tryLock())
    }

    @Test
    fun `a closed client refuses every operation`() {
        client.close()
        assertTrue(client.isClosed)
        assertThrows(ClosedException::class.java) { lock.lock() }
        assertThrows(ClosedException::class.java) { lock.tryLock() }
        assertThrows(ClosedException::class.java) { lock.tryLock(1, TimeUnit.SECONDS) }
        assertThrows(ClosedException::class.java) { lock.isLocked }
        assertThrows(ClosedException::class.java) { lock.unlock() }
        val async = lock.lockAsync().toCompletableFuture()
        assertInstanceOf(
            ClosedException::class.java,
            assertThrows(ExecutionException::class.java) { async.get(5, TimeUnit.SECONDS) }.cause,
        )
    }

    @Test
    fun `a distributed lock has no conditions`() {
        assertThrows(UnsupportedOperationException::class.java) { lock.newCondition() }
    }

    @Test
    fun `a wait in the lock's own options bounds lock as well`() {
        lock.lock()
        val bounded = other.lock(name, LockOptions.DEFAULT.withWait(Duration.ofMillis(250)))
        assertThrows(LockTimeoutException::class.java) { bounded.lock() }
        assertThrows(LockTimeoutException::class.java) { bounded.lockInterruptibly() }
        assertThrows(LockTimeoutException::class.java) { bounded.withLock { } }
    }

    @Test
    fun `many threads count without a lost update`() {
        var counter = 0
        val threads =
            List(8) {
                Thread {
                    repeat(50) {
                        lock.withLock {
                            val seen = counter
                            Thread.onSpinWait()
                            counter = seen + 1
                        }
                    }
                }
            }
        threads.forEach(Thread::start)
        threads.forEach { it.join(60_000) }
        assertEquals(400, counter)
    }

    /** Starts a virtual thread, or a platform thread if the JVM has no virtual ones. */
    private fun startLight(task: Runnable): Thread =
        try {
            Thread::class.java.getMethod("startVirtualThread", Runnable::class.java).invoke(null, task) as Thread
        } catch (_: NoSuchMethodException) {
            Thread(task).apply { start() }
        }
}

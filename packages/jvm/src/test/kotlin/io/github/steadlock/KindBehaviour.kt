package io.github.steadlock

import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertInstanceOf
import org.junit.jupiter.api.Assertions.assertNotEquals
import org.junit.jupiter.api.Assertions.assertNotNull
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration
import java.util.UUID
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.TimeUnit

/** Tests the kinds other than `lock` on every transport: the cases that the behaviour suite of all languages lacks. */
abstract class KindBehaviour {
    protected abstract val url: String
    private val name = "kind-${UUID.randomUUID()}"
    private val client by lazy { Steadlock.connect(url) }
    private val other by lazy { Steadlock.connect(url) }

    @AfterEach
    fun close() {
        client.close()
        other.close()
    }

    @Test
    fun `every kind has its name`() {
        val options = LockOptions.DEFAULT.withWait(Duration.ofSeconds(1))
        val locks =
            listOf(
                client.mutex(name),
                client.mutex(name, options),
                client.fairLock(name),
                client.fairLock(name, options),
            )
        assertTrue(locks.all { it.name == name })
        val both = client.readWriteLock(name)
        assertEquals(listOf(name, name, name), listOf(both.name, both.read.name, both.write.name))
        val semaphore = client.semaphore(name, 3, options)
        assertEquals(name to 3, semaphore.name to semaphore.limit)
        assertEquals("$name, other", client.multiLock(client.lock(name), client.mutex("other")).name)
    }

    @Test
    fun `a mutex is not reentrant`() {
        val mutex = client.mutex(name)
        mutex.lock()
        assertFalse(mutex.tryLock())
        assertEquals(1, mutex.holdCount)
        assertNotNull(mutex.held.token)
        mutex.unlock()
        assertFalse(mutex.isLocked)
    }

    @Test
    fun `a thread that locks its mutex again is refused, and with a bound it times out`() {
        val mutex = client.mutex(name)
        val bounded = client.mutex(name, LockOptions.DEFAULT.withWait(Duration.ofMillis(250)))
        // Runs in another thread, because a call that is not refused never returns.
        val refusal =
            CompletableFuture.supplyAsync {
                mutex.lock()
                val refused = assertThrows(InvalidArgumentException::class.java) { mutex.lock() }
                assertThrows(LockTimeoutException::class.java) { bounded.lock() }
                assertEquals(1, mutex.holdCount)
                mutex.unlock()
                refused
            }
        val refused = refusal.get(10, TimeUnit.SECONDS)
        assertEquals(name, refused.lockName)
        assertTrue("a mutex is not reentrant" in checkNotNull(refused.message), refused.message)
        assertFalse(mutex.isLocked)
    }

    @Test
    fun `a lock and the fair lock of its name have the same holder`() {
        val (plain, fair) = client.lock(name) to client.fairLock(name)
        plain.lock()
        assertTrue(fair.isHeldByCurrentThread && fair.tryLock())
        assertEquals(2, plain.holdCount)
        assertFalse(other.fairLock(name).tryLock())
        fair.unlock()
        fair.unlock()
        assertFalse(plain.isLocked)
    }

    @Test
    fun `unlock releases the last lease of the thread`() {
        val (plain, fair) = client.lock(name) to client.fairLock(name)
        fair.lock()
        val first = fair.held
        plain.lock()
        val last = plain.held
        fair.unlock()
        assertFalse(last.isValid)
        assertTrue(first.isValid)
        assertEquals(ReleaseOutcome.RELEASED, last.release())
        assertEquals(1, plain.holdCount)
        plain.unlock()
        assertFalse(first.isValid)
        assertFalse(fair.isLocked)
    }

    @Test
    fun `waiters of a fair lock are served in order of arrival across clients`() {
        val fair = client.fairLock(name)
        fair.lock()
        val served = CopyOnWriteArrayList<Int>()
        val waiting =
            List(6) { number ->
                val from = if (number % 2 == 0) other else client
                Thread { from.fairLock(name).withLock { served.add(number) } }.also { thread ->
                    thread.start()
                    awaitTrue("it waits") { thread.state == Thread.State.WAITING }
                    // The server answers a client's calls in order, so the waiter is in its queue before this reply.
                    assertTrue(from.fairLock(name).isLocked)
                }
            }
        fair.unlock()
        waiting.forEach { it.join(10_000) }
        assertEquals(List(6) { it }, served)
    }

    @Test
    fun `readers share, and a writer is exclusive`() {
        val (here, there) = client.readWriteLock(name) to other.readWriteLock(name)
        here.readLock().lock()
        assertNull(here.read.held.token)
        assertTrue(there.read.tryLock())
        assertFalse(onAnotherThread { there.write.tryLock() })
        there.read.unlock()
        here.read.unlock()
        there.writeLock().lock()
        assertNotNull(there.write.held.token)
        assertFalse(here.read.tryLock())
        there.write.unlock()
    }

    @Test
    fun `a semaphore grants as many permits as it has`() {
        val semaphore = client.semaphore(name, 3)
        val two = semaphore.acquire(2)
        assertNull(two.token)
        assertEquals(name, two.name)
        assertEquals(1, other.semaphore(name, 3).available())
        assertNull(other.semaphore(name, 3).tryAcquire(2))
        val one = checkNotNull(other.semaphore(name, 3).tryAcquire())
        assertNull(semaphore.tryAcquire(1, Duration.ofMillis(250)))
        assertNull(semaphore.tryAcquire(1, Duration.ofMillis(250), Duration.ofSeconds(5)))
        assertEquals(ReleaseOutcome.RELEASED, two.release())
        assertTrue(semaphore.withPermits(2) { it.isValid })
        assertEquals(2, semaphore.withPermit { semaphore.available() } + 1)
        one.release()
        assertEquals(3, semaphore.available())
    }

    @Test
    fun `a semaphore releases the last lease of the thread`() {
        val semaphore = client.semaphore(name, 5)
        val two = semaphore.acquire(2)
        val one = semaphore.acquire()
        semaphore.release()
        assertTrue(two.isValid && !one.isValid)
        assertEquals(ReleaseOutcome.RELEASED, one.release())
        assertEquals(3, semaphore.available())
        onAnotherThread {
            val refused = assertThrows(IllegalMonitorStateException::class.java) { semaphore.release() }
            assertInstanceOf(NotOwnerException::class.java, refused.cause)
        }
        semaphore.release()
        assertFalse(two.isValid)
        assertEquals(5, semaphore.available())
        assertThrows(IllegalMonitorStateException::class.java) { semaphore.release() }
    }

    @Test
    fun `a wait for permits ends in LockTimeout, by an interrupt, or in a grant`() {
        val held = client.semaphore(name, 1).acquire()
        val bounded = other.semaphore(name, 1, LockOptions.DEFAULT.withWait(Duration.ofMillis(250)))
        assertThrows(LockTimeoutException::class.java) { bounded.acquire() }
        val semaphore = other.semaphore(name, 1)
        val interrupted = CompletableFuture<Throwable?>()
        val waiting = Thread { interrupted.complete(runCatching { semaphore.acquire() }.exceptionOrNull()) }
        waiting.start()
        awaitTrue("the thread waits") { waiting.state == Thread.State.WAITING }
        waiting.interrupt()
        assertInstanceOf(InterruptedException::class.java, interrupted.get(5, TimeUnit.SECONDS))
        val cancelled = semaphore.acquireAsync().toCompletableFuture()
        cancelled.cancel(true)
        val granted = semaphore.acquireAsync().toCompletableFuture()
        held.release()
        assertEquals(ReleaseOutcome.RELEASED, granted.get(5, TimeUnit.SECONDS).release())
        assertEquals(1, semaphore.available())
    }

    @Test
    fun `permits of an ended thread are released`() {
        onAnotherThread { client.semaphore(name, 2).acquire(2) }
        awaitTrue("they are released, once their lease is garbage") {
            System.gc()
            client.semaphore(name, 2).available() == 2
        }
    }

    @Test
    fun `invalid limits, permits and a different limit are refused`() {
        for ((permits, limit) in listOf(0 to 1, -1 to 1, 2 to 1, 1 to 0, 1 to -1, 1_001 to 2_000, 1 to Int.MAX_VALUE)) {
            val semaphore = client.semaphore(name, limit)
            assertThrows(InvalidArgumentException::class.java, { semaphore.tryAcquire(permits) }, "$permits of $limit")
        }
        client.semaphore(name, 2).acquire()
        assertThrows(MisconfiguredException::class.java) { other.semaphore(name, 3).tryAcquire() }
    }

    @Test
    fun `holder names the holder of a lock of any kind`() {
        for (kind in LOCKS.keys - "multi") {
            val lock = LOCKS.getValue(kind)(client, "$name:$kind", LockOptions.DEFAULT)
            assertNull(lock.holder(), kind)
            lock.lock(Duration.ofSeconds(20))
            val first = checkNotNull(lock.holder()) { kind }
            assertTrue(checkNotNull(first.remaining) in Duration.ofSeconds(15)..Duration.ofSeconds(20), "$kind $first")
            lock.unlock()
            assertNull(lock.holder(), kind)
            lock.lock()
            assertNotEquals(first.owner, lock.holder()?.owner, "each grant has an owner id of its own")
            lock.unlock()
        }
        client.mutex(name).lock()
        val refused =
            assertThrows(LockTimeoutException::class.java) {
                other.mutex(name, LockOptions.DEFAULT.withWait(Duration.ZERO)).lock()
            }
        assertEquals(other.mutex(name).holder()?.owner, refused.holder?.owner)
    }

    @Test
    fun `a name is either a lock or a mutex`() {
        val (lock, fair, mutex) = Triple(client.lock(name), client.fairLock(name), client.mutex(name))
        for ((held, wanted) in listOf(lock to mutex, fair to mutex, mutex to lock, mutex to fair)) {
            held.withLock {
                assertThrows(MisconfiguredException::class.java) { wanted.lock() }
                onAnotherThread { assertThrows(MisconfiguredException::class.java) { wanted.tryLock() } }
            }
        }
    }

    @Test
    fun `a composite lock holds all members or none`() {
        val members = { from: SteadlockClient ->
            listOf(from.lock("$name:b"), from.fairLock("$name:a"), from.semaphore("$name:c", 2).permits(2))
        }
        val several = client.multiLock(members(client))
        several.lock()
        assertTrue(several.isHeldByCurrentThread && several.held.isValid)
        assertNull(several.held.token)
        assertTrue(members(other).none { it.tryLock() })
        several.held.extend(Duration.ofSeconds(40))
        assertTrue(several.held.remaining > Duration.ofSeconds(35))
        several.unlock()
        assertThrows(IllegalMonitorStateException::class.java) { several.unlock() }
        other.semaphore("$name:c", 2).acquire()
        assertFalse(several.tryLock())
        assertTrue(members(other).take(2).all { it.tryLock(Duration.ofSeconds(5)) })
    }

    @Test
    fun `invalid composite locks are refused`() {
        val lock = client.lock(name)
        val wrong =
            listOf(
                client.multiLock(),
                client.multiLock(lock, client.lock(name)),
                client.multiLock(client.multiLock(lock), client.lock("$name:other")),
            )
        for (several in wrong) {
            assertThrows(InvalidArgumentException::class.java) { several.tryLock() }
        }
        assertThrows(InvalidArgumentException::class.java) { client.multiLock(other.lock(name)) }
        assertThrows(InvalidArgumentException::class.java) { client.multiLock(lock).isLocked }
        assertThrows(InvalidArgumentException::class.java) { client.multiLock(lock).holder() }
        assertThrows(InvalidArgumentException::class.java) { client.forceRelease(client.multiLock(lock)) }
        assertFalse(lock.isLocked)
    }

    @Test
    fun `a forced release returns whether the lock was held`() {
        val semaphore = client.semaphore("$name:semaphore", 2)
        assertFalse(other.forceRelease(other.semaphore("$name:semaphore", 2)))
        semaphore.acquire()
        semaphore.acquire()
        assertTrue(other.forceRelease(other.semaphore("$name:semaphore", 2)))
        assertEquals(2, semaphore.available())
        for (kind in LOCKS.keys - "semaphore" - "multi") {
            val lockOf = { from: SteadlockClient -> LOCKS.getValue(kind)(from, "$name:$kind", LockOptions.DEFAULT) }
            val lease = lockOf(client).lock(Duration.ofSeconds(10))
            assertTrue(other.forceRelease(lockOf(other)), kind)
            assertFalse(other.forceRelease(lockOf(other)), kind)
            assertTrue(lockOf(other).tryLock(), kind)
            assertTrue(lease.release() in listOf(ReleaseOutcome.EXPIRED, ReleaseOutcome.STOLEN), kind)
        }
        assertThrows(InvalidArgumentException::class.java) { client.forceRelease(other.lock(name)) }
    }

    @Test
    fun `an operator changes the limit of a semaphore that is held`() {
        val semaphore = client.semaphore(name, 3)
        assertFalse(other.setLimit(name, 1))
        val lease = semaphore.permits(2).lock(Duration.ofSeconds(10))
        assertTrue(other.setLimit(name, 1))
        assertEquals(0, semaphore.available())
        assertThrows(MisconfiguredException::class.java) { semaphore.tryAcquire() }
        assertNull(other.semaphore(name, 1).tryAcquire())
        lease.extend(Duration.ofSeconds(20))
        assertTrue(other.setLimit(name, 4))
        val rest = checkNotNull(other.semaphore(name, 4).tryAcquire(2))
        assertEquals(ReleaseOutcome.RELEASED, lease.release())
        assertEquals(ReleaseOutcome.RELEASED, rest.release())
        for (limit in listOf(0, -1, 1_000_001)) {
            val refused = assertThrows(InvalidArgumentException::class.java) { client.setLimit(name, limit) }
            assertEquals("set_limit", refused.operation)
        }
    }

    @Test
    fun `a closed client refuses every operation on every kind`() {
        val locks = LOCKS.values.map { it(client, name, LockOptions.DEFAULT) }
        client.close()
        for (lock in locks) {
            assertThrows(ClosedException::class.java) { lock.lock() }
        }
        assertThrows(ClosedException::class.java) { client.semaphore(name, 1).available() }
        assertThrows(ClosedException::class.java) { client.forceRelease(client.lock(name)) }
        assertThrows(ClosedException::class.java) { client.setLimit(name, 1) }
    }
}

package io.github.steadlock

import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertSame
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.time.Duration
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit

/** Tests threads that act as the owner of a lease that a stage or another thread acquired. */
class CurrentLeaseTest {
    private val client = Steadlock.connect("memory://")

    @AfterEach
    fun close() = client.close()

    @Test
    fun `a thread re-enters by a lease of a stage`() {
        val lock = client.lock("door")
        val lease = granted(lock)
        assertFalse(lock.isHeldByCurrentThread || lock.tryLock())
        lease.makeCurrent().use {
            assertTrue(lock.isHeldByCurrentThread)
            assertSame(lease, lock.lease)
            lock.lock()
            assertTrue(lock.tryLock() && lock.tryLock(1, TimeUnit.SECONDS))
            assertEquals(4, lock.holdCount)
            repeat(3) { lock.unlock() }
            assertEquals(lease.token, client.fairLock("door").withLock { it.token })
        }
        assertFalse(lock.isHeldByCurrentThread || lock.tryLock())
        assertThrows(IllegalMonitorStateException::class.java) { lock.unlock() }
        assertEquals(ReleaseOutcome.RELEASED, lease.release())
        assertTrue(lock.tryLock())
    }

    @Test
    fun `a lock that is not reentrant is refused at once`() {
        val lease = granted(client.mutex("door"))
        lease.makeCurrent().use {
            assertThrows(InvalidArgumentException::class.java) { client.mutex("door").lock() }
            assertFalse(client.mutex("door").tryLock())
        }
        lease.release()
    }

    @Test
    fun `a write inside a read is refused at once, a read inside a write is entered`() {
        val sides = client.readWriteLock("catalogue")
        val read = granted(sides.readLock())
        read.makeCurrent().use {
            assertThrows(InvalidArgumentException::class.java) { sides.writeLock().lock() }
            assertTrue(sides.readLock().tryLock())
            sides.readLock().unlock()
        }
        read.release()
        val write = granted(sides.writeLock())
        write.makeCurrent().use {
            sides.readLock().lock()
            sides.writeLock().withLock { assertEquals(2, sides.writeLock().holdCount) }
            sides.readLock().unlock()
        }
        write.release()
    }

    @Test
    fun `a member of a held composite lock is refused at once`() {
        val several = granted(client.multiLock(client.lock("a"), client.mutex("b")))
        several.makeCurrent().use {
            client.lock("a").withLock { assertTrue(client.lock("a").isHeldByCurrentThread) }
            assertThrows(InvalidArgumentException::class.java) { client.mutex("b").lock() }
        }
        several.release()
    }

    @Test
    fun `other locks and clients are not affected`() {
        val outer = client.lock("outer").also { it.lock() }
        val lease = granted(client.lock("door"))
        val inner = client.lock("inner")
        lease.makeCurrent().use {
            assertTrue(outer.tryLock())
            outer.unlock()
            inner.lock()
        }
        inner.unlock()
        outer.unlock()
        Steadlock.connect("memory://").use { other ->
            lease.makeCurrent().use { assertFalse(other.lock("door").isHeldByCurrentThread) }
        }
    }

    @Test
    fun `scopes can end in any order and on any thread`() {
        val lock = client.lock("door")
        val lease = granted(lock)
        val first = lease.makeCurrent()
        val second = lease.makeCurrent()
        first.close()
        first.close()
        assertTrue(lock.isHeldByCurrentThread)
        onAnotherThread { second.close() }
        assertFalse(lock.isHeldByCurrentThread)
        assertTrue(lease.isValid)
    }

    @Test
    fun `a thread can act as the owner of a lease of another thread`() {
        val lock = client.lock("door").also { it.lock() }
        val lease = lock.held
        onAnotherThread {
            lease.makeCurrent().use { lock.withLock { assertEquals(2, lock.holdCount) } }
            assertFalse(lock.tryLock())
        }
        lock.unlock()
    }

    @Test
    fun `a lease that re-entered by another one has the same owner`() {
        val lock = client.lock("door")
        val outer = granted(lock)
        val inner = lock.lockAsync(LockOptions.DEFAULT.within(outer)).toCompletableFuture().get(5, TimeUnit.SECONDS)
        inner.makeCurrent().use { assertEquals(2, lock.holdCount) }
        inner.release()
        outer.release()
    }

    @Test
    fun `a coroutine on a thread that acts as the owner is refused at once, unless it re-enters`() =
        runBlocking {
            val lease = granted(client.lock("door"))
            val read = granted(client.readWriteLock("catalogue").readLock())
            lease.makeCurrent().use {
                assertThrows(InvalidArgumentException::class.java) { runBlocking { client.withLock("door") {} } }
                client.withLock("door", within = lease) { assertEquals(lease.token, it.token) }
            }
            read.makeCurrent().use {
                client.withLock(client.readWriteLock("catalogue").readLock()) { assertTrue(it.isValid) }
            }
        }

    @Test
    fun `a stage of a thread that acts as the owner re-enters, but not by a lease of a thread`() {
        val lock = client.lock("door")
        val lease = granted(lock)
        val inner = lease.makeCurrent().use { granted(lock) }
        lease.release()
        assertFalse(lock.tryLock(), "the stage still holds it")
        inner.release()
        val own = lock.also { it.lock() }.held
        val withoutWait = LockOptions.DEFAULT.withWait(Duration.ZERO)
        own.makeCurrent().use { assertThrows(ExecutionException::class.java) { granted(lock, withoutWait) } }
        lock.unlock()
    }

    @Test
    fun `a released or lost lease has no owner`() {
        val lock = client.lock("door")
        val lease = granted(lock)
        lease.makeCurrent().use {
            lease.release()
            assertFalse(lock.isHeldByCurrentThread)
            lock.lock()
        }
        assertEquals(1, lock.holdCount, "the hold of the thread itself")
        lock.unlock()
        val fixed = granted(lock, LockOptions.DEFAULT.withLease(Duration.ofMillis(100)))
        fixed.makeCurrent().use {
            awaitTrue("it expires") { fixed.lostReason != null }
            lock.withLock { assertEquals(1, lock.holdCount) }
        }
    }

    private fun granted(lock: NamedLock, options: LockOptions = LockOptions.DEFAULT): Lease =
        lock.lockAsync(options).toCompletableFuture().get(5, TimeUnit.SECONDS)
}

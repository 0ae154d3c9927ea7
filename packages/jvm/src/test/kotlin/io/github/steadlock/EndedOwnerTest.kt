package io.github.steadlock

import io.github.steadlock.internal.cleaner
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.lang.ref.Reference
import java.util.UUID
import java.util.concurrent.CountDownLatch

/**
 * Tests locks whose owner cannot release them any more: threads that ended, and clients that were dropped. A warning
 * reports each.
 */
class EndedOwnerTest {
    private val url = "memory://${UUID.randomUUID()}"
    private val client = Steadlock.connect(url)
    private val warnings = Warnings()

    @AfterEach
    fun close() {
        client.close()
        warnings.close()
    }

    @Test
    fun `a lock held by an ended thread is released with a warning`() {
        Thread({ client.lock("door").lock() }, "careless").apply { start() }.join()
        awaitTrue("it is released") { !client.lock("door").isLocked }
        awaitTrue("it is logged") { warnings.any { it.contains("careless") && it.contains("door") } }
    }

    @Test
    fun `a referenced lease outlives its thread until it is garbage`() {
        val lock = client.lock("door")
        val other = client.lock("window")
        var lease: Lease? = onAnotherThread { lock.also { it.lock() }.held }
        onAnotherThread { other.lock() }
        awaitTrue("the client has looked for ended threads") { !other.isLocked }
        assertTrue(lock.isLocked && lease?.isValid == true)
        Reference.reachabilityFence(lease)

        lease = null
        awaitTrue("it is released") {
            System.gc()
            !lock.isLocked
        }
    }

    @Test
    fun `a scope can end in another thread`() {
        val lock = client.lock("door")
        val lease = onAnotherThread { lock.also { it.lock() }.held }
        lease.use { assertFalse(lock.tryLock()) }
        assertTrue(lock.tryLock())
    }

    @Test
    fun `a lease is one object while the program refers to it`() {
        val lock = client.lock("door")
        lock.lock()
        assertTrue(lock.lease === lock.lease)
        lock.unlock()
    }

    @Test
    fun `a client dropped without close is closed with a warning`() {
        val dropped = dropped {}
        awaitTrue("its threads end") {
            System.gc()
            dropped.none(Thread::isAlive)
        }
        awaitTrue("it is logged") { warnings.any { it.contains("dropped without close()") } }
    }

    @Test
    fun `a client dropped while it holds a lock keeps the lock`() {
        val (release, held) = CountDownLatch(1) to CountDownLatch(1)
        val holder =
            Thread {
                dropped { it.lock("door").lock() }
                held.countDown()
                release.await()
            }
        holder.start()
        held.await()
        awaitTrue("it is logged") {
            System.gc()
            warnings.any { it.contains("stays open") && it.contains("door") }
        }
        assertTrue(client.lock("door").isLocked)
        release.countDown()
        awaitTrue("it is released when its thread has ended") { !client.lock("door").isLocked }
    }

    @Test
    fun `a lock object keeps its client`() {
        useLockAfterCollection()
        // Otherwise a later test could get the warning about this client.
        awaitTrue("the client is dropped") {
            System.gc()
            warnings.any { it.contains("dropped without close()") }
        }
    }

    private fun useLockAfterCollection() {
        val lock = Steadlock.connect(url).lock("door")
        awaitCleaning()
        assertEquals(1, lock.withLock { lock.holdCount })
        assertFalse(warnings.any { it.contains("dropped") })
        Reference.reachabilityFence(lock)
    }

    @Test
    fun `a closed client causes no warning`() {
        val dropped = dropped(SteadlockClient::close)
        awaitTrue("its threads end") { dropped.none(Thread::isAlive) }
        awaitCleaning()
        assertFalse(warnings.any { it.contains("dropped") })
    }

    /** Waits until the library has handled what is garbage now. */
    private fun awaitCleaning() =
        // One round is not enough: the object of a round can be handled before others that were collected with it.
        repeat(2) {
            val cleaned = CountDownLatch(1)
            cleaner.register(Any(), cleaned::countDown)
            awaitTrue("garbage is handled") {
                System.gc()
                cleaned.count == 0L
            }
        }

    /** Returns the event threads of a client that nothing refers to after [use]. */
    private fun dropped(use: (SteadlockClient) -> Unit): List<Thread> {
        val before = events()
        use(Steadlock.connect(url))
        return events() - before.toSet()
    }

    private fun events(): List<Thread> =
        Thread.getAllStackTraces().keys.filter { it.name.startsWith("steadlock-events") }
}

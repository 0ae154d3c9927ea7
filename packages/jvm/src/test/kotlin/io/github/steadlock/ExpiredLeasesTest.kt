package io.github.steadlock

import io.github.steadlock.internal.Callbacks
import io.github.steadlock.internal.ClientOptions
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.HeldLease
import io.github.steadlock.internal.LoadedFace
import io.github.steadlock.internal.NativeFace
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.future.await
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.lang.ref.WeakReference
import java.time.Duration
import java.util.concurrent.ConcurrentHashMap
import kotlin.time.Duration.Companion.milliseconds

/** Tests that an expired fixed lease leaves nothing behind that the program does not use. */
class LapsingTest {
    private val client = Steadlock.connect("memory://")

    @AfterEach
    fun close() = client.close()

    @Test
    fun `leases that lapsed and were never released are kept by nobody`() {
        val leases = ArrayList<WeakReference<Lease>>()
        repeat(2_000) { leases += WeakReference(client.lock("door-$it").lock(SHORT)) }
        repeat(1_000) {
            val lapses = LockOptions.DEFAULT.withLease(SHORT)
            leases += WeakReference(client.lock("window-$it").lockAsync(lapses).toCompletableFuture().join())
        }
        awaitTrue("all leases are collected") {
            System.gc()
            leases.all { it.get() == null }
        }
    }

    @Test
    fun `withLock whose lease lapsed says so, and leaves what its thread took anew`() {
        val lock = client.lock("door", LockOptions.DEFAULT.withLease(Duration.ofSeconds(1)))
        val thrown =
            assertThrows(LockLostException::class.java) {
                lock.withLock {
                    val lapsed = lock.held
                    awaitTrue("the lease is lost") { lapsed.lostReason == LostReason.EXPIRED }
                    client.lock("door").lock()
                }
            }
        assertEquals(LostReason.EXPIRED, thrown.reason)
        val anew = client.lock("door")
        assertTrue(anew.held.isValid)
        assertFalse(onAnotherThread { anew.tryLock() })
        anew.unlock()
    }

    @Test
    fun `levels that were entered inside of a lease that lapsed are forgotten with it`() {
        val lock = client.lock("door")
        // The inner level is entered long before the outer lease expires.
        val lease = Duration.ofSeconds(1)
        val outer = lock.lock(lease)
        val inner = lock.lock(lease)
        awaitTrue("both are lost") { outer.lostReason != null && inner.lostReason != null }
        assertEquals(0, lock.holdCount)
        lock.lock()
        assertEquals(listOf(ReleaseOutcome.EXPIRED, ReleaseOutcome.EXPIRED), listOf(inner, outer).map(Lease::release))
        assertEquals(1, lock.holdCount)
        assertTrue(lock.held.isValid)
        lock.unlock()
    }

    @Test
    fun `a coroutine whose lease lapsed may take the lock anew, and keeps that`() {
        val lock = client.lock("door")
        var anew: Lease? = null
        val thrown =
            assertThrows(LockLostException::class.java) {
                runBlocking {
                    client.withLock("door", lease = 100.milliseconds) {
                        try {
                            awaitCancellation()
                        } catch (lost: CancellationException) {
                            withContext(NonCancellable) {
                                assertTrue(client.withLock("door") { it.isValid })
                                anew = lock.lockAsync().await()
                            }
                            throw lost
                        }
                    }
                }
            }
        assertEquals(LostReason.EXPIRED, thrown.reason)
        assertTrue(anew?.isValid == true)
        assertFalse(lock.tryLock())
        assertEquals(ReleaseOutcome.RELEASED, anew?.release())
    }

    @Test
    fun `a lease that lapsed is not forgotten while its release is under way`() {
        val face = SilentFace()
        val client = SteadlockClient(Engine.connect(ClientOptions(mapOf("url" to "memory://")), Callbacks(null), face))
        val released = lapsed(client, "released", HeldLease::startRelease)
        val dropped = lapsed(client, "dropped") {}
        awaitTrue("the other one is forgotten") {
            System.gc()
            dropped in face.forgotten
        }
        assertFalse(released in face.forgotten)
        client.close()
    }

    /** Returns the number of a lease that expired and that the program no longer has. */
    private fun lapsed(client: SteadlockClient, name: String, use: (HeldLease) -> Unit): Long {
        val lease = client.lock(name).lock(SHORT)
        awaitTrue("the lease is lost") { lease.lostReason != null && !lease.held.isKept }
        use(lease.held)
        return lease.held.id
    }

    /** A native part that never answers a release. */
    private class SilentFace(private val face: NativeFace = LoadedFace.instance) : NativeFace by face {
        val forgotten: MutableSet<Long> = ConcurrentHashMap.newKeySet()

        override fun release(client: Long, tag: Long, lease: Long): Long = 0

        override fun forget(client: Long, lease: Long) {
            forgotten += lease
            face.forget(client, lease)
        }
    }

    private companion object {
        val SHORT: Duration = Duration.ofMillis(100)
    }
}

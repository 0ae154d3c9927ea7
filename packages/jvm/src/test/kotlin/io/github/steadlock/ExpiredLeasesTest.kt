package io.github.steadlock

import io.github.steadlock.internal.Callbacks
import io.github.steadlock.internal.ClientOptions
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.HeldLease
import io.github.steadlock.internal.NativeApi
import io.github.steadlock.internal.NativeApiLoader
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

/** Tests that the library forgets an expired fixed lease that the program does not use any more. */
class ExpiredLeasesTest {
    private val client = Steadlock.connect("memory://")

    @AfterEach
    fun close() = client.close()

    @Test
    fun `expired leases are not kept in memory`() {
        val leases = ArrayList<WeakReference<Lease>>()
        repeat(2_000) { leases += WeakReference(client.lock("door-$it").lock(SHORT)) }
        repeat(1_000) {
            val shortLease = LockOptions.DEFAULT.withLease(SHORT)
            leases += WeakReference(client.lock("window-$it").lockAsync(shortLease).toCompletableFuture().join())
        }
        awaitTrue("all leases are collected") {
            System.gc()
            leases.all { it.get() == null }
        }
    }

    @Test
    fun `withLock with an expired lease throws, and keeps a newer lease of its thread`() {
        val lock = client.lock("door", LockOptions.DEFAULT.withLease(Duration.ofSeconds(1)))
        val thrown =
            assertThrows(LockLostException::class.java) {
                lock.withLock {
                    val expired = lock.held
                    awaitTrue("the lease is lost") { expired.lostReason == LostReason.EXPIRED }
                    client.lock("door").lock()
                }
            }
        assertEquals(LostReason.EXPIRED, thrown.reason)
        val newer = client.lock("door")
        assertTrue(newer.held.isValid)
        assertFalse(onAnotherThread { newer.tryLock() })
        newer.unlock()
    }

    @Test
    fun `inner levels end with an expired lease`() {
        val lock = client.lock("door")
        // Long enough to enter the inner level before the outer lease expires.
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
    fun `a coroutine with an expired lease can acquire the lock again`() {
        val lock = client.lock("door")
        var newer: Lease? = null
        val thrown =
            assertThrows(LockLostException::class.java) {
                runBlocking {
                    client.withLock("door", lease = 100.milliseconds) {
                        try {
                            awaitCancellation()
                        } catch (lost: CancellationException) {
                            withContext(NonCancellable) {
                                assertTrue(client.withLock("door") { it.isValid })
                                newer = lock.lockAsync().await()
                            }
                            throw lost
                        }
                    }
                }
            }
        assertEquals(LostReason.EXPIRED, thrown.reason)
        assertTrue(newer?.isValid == true)
        assertFalse(lock.tryLock())
        assertEquals(ReleaseOutcome.RELEASED, newer?.release())
    }

    @Test
    fun `an expired lease is not forgotten during its release`() {
        val native = SilentNativeApi()
        val options = ClientOptions(mapOf("url" to "memory://"))
        val client = SteadlockClient(Engine.connect(options, Callbacks(null), native))
        val released = expired(client, "released", HeldLease::startRelease)
        val dropped = expired(client, "dropped") {}
        awaitTrue("the dropped lease is forgotten") {
            System.gc()
            dropped in native.forgotten
        }
        assertFalse(released in native.forgotten)
        client.close()
    }

    /** Returns the id of a lease that has expired and to which the program no longer refers. */
    private fun expired(client: SteadlockClient, name: String, use: (HeldLease) -> Unit): Long {
        val lease = client.lock(name).lock(SHORT)
        awaitTrue("the lease is lost") { lease.lostReason != null && !lease.held.isKept }
        use(lease.held)
        return lease.held.id
    }

    /** A native part that never answers a release. */
    private class SilentNativeApi(private val native: NativeApi = NativeApiLoader.instance) : NativeApi by native {
        val forgotten: MutableSet<Long> = ConcurrentHashMap.newKeySet()

        override fun release(client: Long, tag: Long, lease: Long): Long = 0

        override fun forget(client: Long, lease: Long) {
            forgotten += lease
            native.forget(client, lease)
        }
    }

    private companion object {
        val SHORT: Duration = Duration.ofMillis(100)
    }
}

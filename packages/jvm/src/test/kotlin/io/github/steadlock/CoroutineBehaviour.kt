package io.github.steadlock

import io.github.steadlock.internal.CoroutineHold
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitAll
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.delay
import kotlinx.coroutines.flow.buffer
import kotlinx.coroutines.flow.channelFlow
import kotlinx.coroutines.flow.first
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.flowOf
import kotlinx.coroutines.flow.flowOn
import kotlinx.coroutines.flow.onEach
import kotlinx.coroutines.flow.take
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.launch
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import kotlinx.coroutines.withTimeout
import kotlinx.coroutines.withTimeoutOrNull
import kotlinx.coroutines.yield
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import java.util.UUID
import kotlin.time.Duration
import kotlin.time.Duration.Companion.milliseconds
import kotlin.time.Duration.Companion.seconds

/** Tests `withLock` for coroutines, on every transport. */
abstract class CoroutineBehaviour {
    protected abstract val url: String
    private val name = "lock-${UUID.randomUUID()}"
    private val client by lazy { Steadlock.connect(url) }

    @AfterEach
    fun close() = client.close()

    @Test
    fun `a block runs under the lock and returns its result`() =
        runBlocking {
            val token =
                client.withLock(name) { lease ->
                    assertTrue(client.lock(name).isLocked && lease.isValid)
                    lease.token
                }
            assertTrue(token != null && token > 0)
            assertFalse(client.lock(name).isLocked)
        }

    @Test
    fun `a lease of the call is renewed if the call says so`() =
        runBlocking {
            client.withLock(name, lease = 5.seconds, renew = true) { lease ->
                assertTrue(lease.remaining.toMillis() in 4_000..5_000)
            }
            val permits = client.semaphore(name, 1)
            client.withPermits(permits, lease = 5.seconds, renew = true) { assertTrue(it.isValid) }
            // 200 ms are long enough for a fixed lease and too short for an auto-renewed one.
            val renewed = client.lock(name, LockOptions.DEFAULT.renewed())
            client.withLock(renewed, lease = 200.milliseconds) { assertTrue(it.isValid) }
            assertThrows(InvalidArgumentException::class.java) {
                runBlocking { client.withLock(name, lease = 200.milliseconds, renew = true) { } }
            }
            assertFalse(client.lock(name).isLocked)
        }

    @Test
    fun `coroutines on one thread exclude each other`() =
        runBlocking {
            var inside = 0
            List(10) {
                async {
                    client.withLock(name) {
                        inside++
                        yield()
                        assertEquals(1, inside)
                        inside--
                    }
                }
            }.awaitAll()
            assertFalse(client.lock(name).isLocked)
        }

    @Test
    fun `a wait that ends without the lock throws LockTimeout`() {
        client.lock(name).lock()
        assertThrows(LockTimeoutException::class.java) {
            runBlocking { client.withLock(name, wait = 250.milliseconds) { } }
        }
        assertThrows(LockTimeoutException::class.java) {
            runBlocking { client.withLock(name, wait = Duration.ZERO) { } }
        }
    }

    @Test
    fun `a nested call without within fails at once`() {
        val failed =
            assertThrows(InvalidArgumentException::class.java) {
                runBlocking { client.withLock(name) { coroutineScope { launch { client.withLock(name) { } } } } }
            }
        assertEquals(name, failed.lockName)
        assertFalse(client.lock(name).isLocked)
    }

    @Test
    fun `a nested call re-enters within its given lease`() =
        runBlocking {
            client.withLock(name) { outer ->
                client.withLock(name, within = outer) { inner -> assertEquals(outer.token, inner.token) }
                assertTrue(outer.isValid)
            }
            assertFalse(client.lock(name).isLocked)
        }

    @Test
    fun `a block runs under a lock of every kind`() =
        runBlocking {
            for ((kind, lockOf) in LOCKS) {
                val lock = lockOf(client, "$name-$kind", LockOptions.DEFAULT)
                client.withLock(lock) { lease -> assertTrue(lease.isValid && lease.name == lock.name) }
            }
            assertThrows(InvalidArgumentException::class.java) {
                Steadlock.connect(url).use { runBlocking { client.withLock(it.lock(name)) { } } }
            }
            val bounded = client.mutex(name, LockOptions.DEFAULT.withWait(java.time.Duration.ZERO))
            client.withLock(bounded) {
                assertThrows(LockTimeoutException::class.java) { bounded.lock() }
                assertTrue(it.isValid)
            }
        }

    @Test
    fun `an infinite wait overrides a bounded wait of the lock`() =
        runBlocking {
            client.lock(name).lock()
            val bounded = client.lock(name, LockOptions.DEFAULT.withWait(java.time.Duration.ZERO))
            val waiting = launch(start = CoroutineStart.UNDISPATCHED) {
                client.withLock(bounded, wait = Duration.INFINITE) { }
            }
            client.lock(name).unlock()
            waiting.join()
            assertFalse(waiting.isCancelled)
        }

    @Test
    fun `a nested call that would wait for itself fails at once, whatever its kind`() {
        val both = client.readWriteLock(name)
        val nested =
            listOf(
                client.lock(name) to client.fairLock(name),
                client.mutex(name) to client.mutex(name),
                both.read to both.write,
                client.lock(name) to client.multiLock(client.mutex("$name-other"), client.fairLock(name)),
                client.multiLock(client.lock(name)) to client.lock(name),
            )
        for ((outer, inner) in nested) {
            assertThrows(InvalidArgumentException::class.java) {
                runBlocking { client.withLock(outer) { client.withLock(inner) { } } }
            }
        }
    }

    @Test
    fun `a lock inside the mutex of its name is Misconfigured, as it is for threads`() {
        for ((outer, inner) in listOf(
            client.mutex(name) to client.lock(name),
            client.lock(name) to client.mutex(name),
        )) {
            assertThrows(MisconfiguredException::class.java) {
                runBlocking { client.withLock(outer) { client.withLock(inner) { } } }
            }
        }
    }

    @Test
    fun `a nested call of another lock does not wait`() =
        runBlocking {
            val shared = client.readWriteLock("$name-shared").read
            client.withLock(shared) { client.withLock(shared) { lease -> assertTrue(lease.isValid) } }
            client.withLock(client.mutex("$name-mutex")) {
                client.withLock(client.readWriteLock("$name-both").read) { client.withLock(name) { } }
            }
        }

    @Test
    fun `a read inside a write names the write's lease`() =
        runBlocking {
            val both = client.readWriteLock(name)
            client.withLock(both.write) { writing ->
                client.withLock(both.read, within = writing) { reading -> assertTrue(reading.isValid) }
            }
        }

    @Test
    fun `a block runs under permits, and a nested block acquires others`() =
        runBlocking {
            val semaphore = client.semaphore(name, 3)
            client.withPermits(semaphore, 2) {
                client.withPermits(semaphore) { assertEquals(0, semaphore.available()) }
                assertThrows(LockTimeoutException::class.java) {
                    runBlocking { client.withPermits(semaphore, 2, wait = 250.milliseconds) { } }
                }
                val waiting = launch(start = CoroutineStart.UNDISPATCHED) { client.withPermits(semaphore, 3) { } }
                waiting.cancelAndJoin()
            }
            assertEquals(3, semaphore.available())
        }

    @Test
    fun `a cancelled wait leaves no record`() =
        runBlocking {
            client.lock(name).lock()
            val waiting = launch(start = CoroutineStart.UNDISPATCHED) { client.withLock(name) { } }
            waiting.cancelAndJoin()
            client.lock(name).unlock()
            assertTrue(client.lock(name).tryLock())
        }

    @Test
    fun `a timed-out wait leaves no record`() =
        runBlocking {
            client.lock(name).lock()
            assertNull(withTimeoutOrNull(50) { client.withLock(name) { } })
            client.lock(name).unlock()
            assertTrue(client.lock(name).tryLock())
        }

    @Test
    fun `attempts cancelled at any time leave no record`() =
        runBlocking {
            repeat(50) { attempt ->
                val trying = launch(Dispatchers.Default) { client.withLock(name) { } }
                delay((attempt % 5).toLong())
                trying.cancelAndJoin()
            }
            client.withLock(name, wait = 5.seconds) { }
        }

    @Test
    fun `a cancelled block releases the lock`() =
        runBlocking {
            val entered = CompletableDeferred<Unit>()
            val holding =
                launch {
                    client.withLock(name) {
                        entered.complete(Unit)
                        delay(Long.MAX_VALUE)
                    }
                }
            entered.await()
            holding.cancelAndJoin()
            assertFalse(client.lock(name).isLocked)
        }

    @Test
    fun `an unconfined coroutine can block inside`() =
        runBlocking(Dispatchers.Unconfined) {
            client.withLock(name) { client.lock("$name-other").withLock { } }
        }

    @Test
    fun `the exception of a block takes precedence`() {
        assertThrows(IllegalStateException::class.java) {
            runBlocking { client.withLock(name) { error("the block's own") } }
        }
        assertFalse(client.lock(name).isLocked)
    }

    @Test
    fun `a closed client cancels the block with LockLost`() {
        val failed =
            assertThrows(LockLostException::class.java) {
                runBlocking {
                    client.withLock(name) {
                        client.close()
                        delay(Long.MAX_VALUE)
                    }
                }
            }
        assertEquals(name, failed.lockName)
        assertEquals(LostReason.CLOSED, failed.reason)
    }

    @Test
    fun `a flow emits under a lock and under permits`() =
        runBlocking {
            val semaphore = client.semaphore("$name-permits", 1)
            val numbers =
                flow {
                    client.withLock(name) { emit(1) }
                    client.withPermits(semaphore) { emit(2) }
                    client.withLock(name) { outer -> client.withLock(name, within = outer) { emit(3) } }
                }
            assertEquals(listOf(1, 2, 3), numbers.toList())
            assertEquals(listOf(1, 2, 3), numbers.flowOn(Dispatchers.Default).toList())
            assertEquals(listOf(1, 2, 3), numbers.buffer(0).toList())
            assertFalse(client.lock(name).isLocked)
        }

    @Test
    fun `a channelFlow sends under a lock`() =
        runBlocking {
            val numbers = channelFlow { client.withLock(name) { coroutineScope { launch { send(1) } } } }
            assertEquals(listOf(1), numbers.toList())
            assertFalse(client.lock(name).isLocked)
        }

    @Test
    fun `a flow is collected under a lock`() =
        runBlocking {
            val numbers = flowOf(1, 2).onEach { delay(1) }.flowOn(Dispatchers.Default)
            val got = client.withLock(name) { numbers.toList() }
            assertEquals(listOf(1, 2), got)
            assertFalse(client.lock(name).isLocked)
        }

    @Test
    fun `a collector that stops early releases the lock`() =
        runBlocking {
            val numbers =
                flow {
                    client.withLock(name) {
                        emit(1)
                        emit(2)
                        emit(3)
                    }
                }
            assertEquals(1, numbers.first())
            assertFalse(client.lock(name).isLocked)
            assertEquals(listOf(1, 2), numbers.take(2).toList())
            assertFalse(client.lock(name).isLocked)
            assertEquals(1, numbers.flowOn(Dispatchers.Default).buffer(0).first())
            client.withLock(name, wait = 5.seconds) { }
        }

    @Test
    fun `a loss while a flow emits ends its collector with LockLost`() {
        val failed =
            assertThrows(LockLostException::class.java) {
                runBlocking {
                    flow { client.withLock(name) { emit(1) } }.collect {
                        client.close()
                        delay(Long.MAX_VALUE)
                    }
                }
            }
        assertEquals(LostReason.CLOSED, failed.reason)
    }

    @Test
    fun `a nested call of a collector, of a child, or that cannot be cancelled fails at once`() {
        val nested: Map<String, suspend () -> Unit> =
            mapOf(
                "collector" to { flow { client.withLock(name) { emit(1) } }.collect { client.withLock(name) { } } },
                "producer" to {
                    val inside = flow { client.withLock(name) { emit(1) } }
                    client.withLock(name) { inside.flowOn(Dispatchers.Default).collect { } }
                },
                "grandchild" to {
                    client.withLock(name) {
                        coroutineScope { launch(Dispatchers.Default) { async { client.withLock(name) { } }.await() } }
                    }
                },
                "another dispatcher" to {
                    client.withLock(name) { withContext(Dispatchers.Default) { client.withLock(name) { } } }
                },
                "not cancellable" to {
                    client.withLock(name) { withContext(NonCancellable) { client.withLock(name) { } } }
                },
                "not cancellable, of a child" to {
                    client.withLock(name) {
                        coroutineScope {
                            launch(Dispatchers.Default) { withContext(NonCancellable) { client.withLock(name) { } } }
                        }
                    }
                },
                "time limit" to { client.withLock(name) { withTimeoutOrNull(60_000) { client.withLock(name) { } } } },
                "several as one" to {
                    client.withLock(client.multiLock(client.lock("$name-other"), client.lock(name))) {
                        client.withLock(name) { }
                    }
                },
            )
        for ((what, call) in nested) {
            val failed =
                assertThrows(InvalidArgumentException::class.java, {
                    runBlocking { withTimeout(10_000) { call() } }
                }, what)
            assertEquals(name, failed.lockName, what)
            assertFalse(client.lock(name).isLocked, what)
        }
    }

    @Test
    fun `a coroutine that the block does not wait for waits for the lock`() =
        runBlocking {
            val elsewhere = CoroutineScope(Dispatchers.Default)
            val waiting = client.withLock(name) {
                elsewhere.launch(start = CoroutineStart.UNDISPATCHED) { client.withLock(name) { } }
            }
            waiting.join()
            assertFalse(waiting.isCancelled)
        }

    @Test
    fun `an ended block excludes no caller`() =
        runBlocking {
            val ends: List<suspend (Lease) -> Unit> =
                listOf({ }, { error("failed") }, { throw CancellationException("cancelled") }, { it.release() })
            val lock = client.own(client.multiLock(client.lock(name), client.mutex("$name-other")), "acquire")
            for (end in ends) {
                runCatching { client.withLock(lock, block = end) }
                assertEquals(emptyList<CoroutineHold>(), CoroutineHold.of(lock))
            }
            client.withLock(lock) { lease ->
                lease.release()
                client.withLock(lock) { }
                assertEquals(1, CoroutineHold.of(client.own(client.lock(name), "acquire")).size)
            }
            assertEquals(emptyList<CoroutineHold>(), CoroutineHold.of(lock))
        }

    @Test
    fun `a loss cancels what the block left running in its scope`() {
        val failed =
            assertThrows(LockLostException::class.java) {
                runBlocking {
                    withTimeout(10_000) {
                        client.withLock(name) {
                            // Uses the thread of the block, so it runs after the block's end.
                            CoroutineScope(currentCoroutineContext()).launch {
                                client.close()
                                delay(Long.MAX_VALUE)
                            }
                        }
                    }
                }
            }
        assertEquals(LostReason.CLOSED, failed.reason)
    }
}

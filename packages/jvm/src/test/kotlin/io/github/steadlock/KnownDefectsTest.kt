package io.github.steadlock

import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.delay
import kotlinx.coroutines.future.await
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import org.junit.jupiter.api.Assertions.assertInstanceOf
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.params.ParameterizedTest
import org.junit.jupiter.params.provider.EnumSource
import java.time.Duration
import kotlin.reflect.KClass

/**
 * Shows that these tests find a known defect of other lock libraries.
 *
 * Each check passes on the real code and fails on a stand-in that has the defect. The tests of the core do the same for
 * defects of the core. The defect here is one of scopes, which are part of this library.
 */
class KnownDefectsTest {
    /** A mishap inside a scope, and the errors that the end of the scope and an `unlock` throw for it. */
    enum class Mishap(
        val scopeThrows: KClass<out RuntimeException>,
        val unlockThrows: KClass<out RuntimeException>,
        val happen: (SteadlockClient) -> Unit,
    ) {
        /** The fixed lease expires. */
        LEASE_LOST(LockLostException::class, IllegalMonitorStateException::class, {}),

        /** The client is closed, which releases the lock. */
        CLIENT_CLOSED(LockLostException::class, ClosedException::class, SteadlockClient::close),
    }

    @ParameterizedTest
    @EnumSource
    fun `a release that masks the exception of the body is found`(mishap: Mishap) {
        checkExceptionOfTheBody(mishap) { it }

        val masked = assertThrows(AssertionError::class.java) { checkExceptionOfTheBody(mishap, ::MaskingLock) }
        assertInstanceOf(mishap.unlockThrows.java, masked.cause)
    }

    @ParameterizedTest
    @EnumSource
    fun `a release that masks the exception of the coroutine is found`(mishap: Mishap) {
        checkExceptionOfTheCoroutine(mishap) { client, block -> client.withLock(client.door(), block = block) }

        val masked =
            assertThrows(AssertionError::class.java) { checkExceptionOfTheCoroutine(mishap, ::maskingWithLock) }
        assertInstanceOf(mishap.scopeThrows.java, masked.cause)
    }

    private fun checkExceptionOfTheBody(mishap: Mishap, standIn: (NamedLock) -> NamedLock) {
        Steadlock.connect("memory://").use { client ->
            val thrown =
                assertThrows(ProgramException::class.java) {
                    standIn(client.door()).withLock<Unit> { lease ->
                        mishap.happen(client)
                        awaitTrue("the lease is lost") { lease.lostReason != null }
                        throw ProgramException()
                    }
                }
            assertInstanceOf(mishap.scopeThrows.java, thrown.suppressed.single())
        }
    }

    private fun checkExceptionOfTheCoroutine(
        mishap: Mishap,
        withLock: suspend (SteadlockClient, suspend (Lease) -> Unit) -> Unit,
    ) {
        Steadlock.connect("memory://").use { client ->
            val thrown =
                assertThrows(ProgramException::class.java) {
                    runBlocking {
                        withLock(client) { lease ->
                            mishap.happen(client)
                            withContext(NonCancellable) { while (lease.lostReason == null) delay(5) }
                            throw ProgramException()
                        }
                    }
                }
            assertInstanceOf(mishap.scopeThrows.java, thrown.suppressed.single())
        }
    }

    private fun SteadlockClient.door(): NamedLock =
        lock("door", LockOptions.DEFAULT.withLease(Duration.ofMillis(100)))

    /** The scope that the JDK's documentation shows for the JDK's locks, whose `unlock` never fails. */
    private class MaskingLock(private val lock: NamedLock) : NamedLock by lock {
        override fun <T> withLock(action: (Lease) -> T): T {
            lock.lock()
            try {
                return action(lock.held)
            } finally {
                lock.unlock()
            }
        }
    }

    /** The same scope for coroutines. */
    private suspend fun maskingWithLock(client: SteadlockClient, block: suspend (Lease) -> Unit) {
        val lease = client.door().lockAsync().await()
        try {
            block(lease)
        } finally {
            lease.close()
        }
    }

    /** An exception of the program itself. */
    private class ProgramException : RuntimeException("mine")
}

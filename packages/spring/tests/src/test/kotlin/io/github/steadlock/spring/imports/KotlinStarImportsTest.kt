package io.github.steadlock.spring.imports

import io.github.steadlock.*
import io.github.steadlock.spring.*
import kotlinx.coroutines.runBlocking
import org.assertj.core.api.Assertions.assertThat
import org.junit.jupiter.api.Test

/** Tests star imports in Kotlin, like `StarImportsTest` in Java. */
class KotlinStarImportsTest {
    @Test
    fun `the annotation and the locks are used side by side`() =
        Steadlock.connect("memory://").use { client ->
            val lock: NamedLock = client.lock("stock")
            val isHeld = runBlocking { Shop(client, lock).buy() }
            assertThat(isHeld).isTrue()
            Unit
        }

    private class Shop(private val client: SteadlockClient, private val lock: NamedLock) {
        @DistributedLock(name = "'shop'", kind = LockKind.LOCK)
        suspend fun buy(): Boolean = client.withLock(lock) { lease: Lease -> lease.isValid }
    }
}

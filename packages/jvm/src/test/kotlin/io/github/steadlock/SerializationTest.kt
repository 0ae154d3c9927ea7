package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Test
import java.io.ByteArrayInputStream
import java.io.ByteArrayOutputStream
import java.io.ObjectInputStream
import java.io.ObjectOutputStream
import java.time.Duration

/**
 * Tests that exceptions can be serialized, because frameworks for remote calls and sessions send them to other
 * processes.
 */
class SerializationTest {
    @Test
    fun `a serialized LockTimeout keeps its holder`() {
        val url = "memory://serialization"
        Steadlock.connect(url).use { client ->
            Steadlock.connect(url).use { other ->
                other.lock("door").lock()
                val busy =
                    assertThrows(LockTimeoutException::class.java) {
                        client.lock("door", LockOptions.DEFAULT.withWait(Duration.ofMillis(250))).lock()
                    }
                val back = copied(busy)
                assertEquals(busy.message, back.message)
                assertEquals(busy.lockName, back.lockName)
                assertEquals(busy.holder, back.holder)
                assertEquals(busy.holder!!.client, back.holder!!.client)
            }
        }
    }

    private fun <T> copied(value: T): T {
        val bytes = ByteArrayOutputStream()
        ObjectOutputStream(bytes).use { it.writeObject(value) }
        @Suppress("UNCHECKED_CAST")
        return ObjectInputStream(ByteArrayInputStream(bytes.toByteArray())).readObject() as T
    }
}

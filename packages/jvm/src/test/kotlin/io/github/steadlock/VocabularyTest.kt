package io.github.steadlock

import io.github.steadlock.internal.Failure
import io.github.steadlock.internal.Kind
import io.github.steadlock.internal.NativeApiLoader
import io.github.steadlock.internal.toException
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** Tests that this library knows exactly the kinds, outcomes and reasons of the core. */
class VocabularyTest {
    private val words = NativeApiLoader.instance.vocabulary()

    @Test
    fun `every error kind but Cancelled has an exception of its name`() {
        for (kind in words.errorKinds - "Cancelled") {
            val exception = Failure(kind, "acquire", "why", "name").toException()
            assertEquals("${kind}Exception", exception.javaClass.simpleName)
        }
    }

    @Test
    fun `every release outcome is known`() {
        assertEquals(words.releaseOutcomes.sorted(), ReleaseOutcome.entries.map { it.name.lowercase() }.sorted())
    }

    @Test
    fun `every reason of a loss is known`() {
        assertEquals(words.lostReasons.sorted(), LostReason.entries.map { it.name.lowercase() }.sorted())
    }

    @Test
    fun `every kind of lock is known`() {
        assertEquals(words.kinds, Kind.entries.map(Kind::word))
    }

    @Test
    fun `every policy for outages is known, in this order`() {
        assertEquals(words.onUnavailable, OnUnavailable.entries.map { it.name.lowercase() })
    }
}

package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** What the build's own profile gives: programs get a newer stdlib by the pom. */
class StdlibTest {
    @Test
    fun `the library is compiled and tested with the oldest stdlib`() {
        assertEquals(System.getProperty("kotlin.oldest"), "${KotlinVersion.CURRENT}")
    }
}

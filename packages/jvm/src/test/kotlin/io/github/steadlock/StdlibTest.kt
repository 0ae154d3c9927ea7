package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** Checks that the library's own build uses the oldest stdlib. Programs get a newer one from the published pom. */
class StdlibTest {
    @Test
    fun `the library is compiled and tested with the oldest stdlib`() {
        assertEquals(System.getProperty("kotlin.oldest"), "${KotlinVersion.CURRENT}")
    }
}

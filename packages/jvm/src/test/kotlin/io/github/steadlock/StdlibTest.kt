package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test

/** Checks the profile of the library's own build. Programs get a newer stdlib from the pom. */
class StdlibTest {
    @Test
    fun `the library is compiled and tested with the oldest stdlib`() {
        assertEquals(System.getProperty("kotlin.oldest"), "${KotlinVersion.CURRENT}")
    }
}

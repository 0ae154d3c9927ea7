package io.github.steadlock

import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import java.nio.file.Path

/** Checks the JVM on which these tests run. */
class RuntimeTest {
    @Test
    fun `the tests run on the requested JDK`() {
        println("these tests run on Java ${Runtime.version()}")
        val asked = System.getenv("STEADLOCK_TEST_JAVA_HOME") ?: return
        assertEquals(Path.of(asked).toRealPath(), Path.of(System.getProperty("java.home")).toRealPath())
    }
}

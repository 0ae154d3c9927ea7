package io.leasehold

import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import java.nio.file.Files
import java.nio.file.Path
import kotlin.time.Duration.Companion.seconds

/** What README.md shows in Kotlin, and that it shows what these tests run. */
class ReadmeKotlinTest {
    @Test
    fun `the Kotlin snippet runs`() =
        runBlocking {
            // README
            Leasehold.connect("memory://").use { client ->
                client.withLock("stock:42", wait = 5.seconds) { lease ->
                    println("mine, with fencing token ${lease.token}")
                }
            }
            // README
        }

    @Test
    fun `README shows what the tests run`() {
        assertEquals(shown("kotlin"), run(Path.of("src/test/kotlin/io/leasehold/ReadmeKotlinTest.kt")))
        assertEquals(shown("java"), run(Path.of("src/test/java/io/leasehold/JavaUsageTest.java")))
    }

    private fun shown(language: String): String =
        Files.readString(Path.of("README.md")).substringAfter("```$language\n").substringBefore("```").trimEnd()

    private fun run(file: Path): String =
        Files.readString(file).substringAfter("// README\n").substringBefore("// README").trimEnd().trimIndent()
            .replace("memory://", "redis://localhost:6379")
}

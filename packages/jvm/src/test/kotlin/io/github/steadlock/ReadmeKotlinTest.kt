package io.github.steadlock

import kotlinx.coroutines.runBlocking
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Test
import java.nio.file.Files
import java.nio.file.Path
import kotlin.time.Duration.Companion.seconds
import kotlin.time.toJavaDuration

/** Runs the Kotlin snippets of README.md, and checks that README.md shows the code that these tests run. */
class ReadmeKotlinTest {
    @Test
    fun `the Kotlin snippet runs`() =
        runBlocking {
            // README
            Steadlock.connect("memory://").use { client ->
                client.withLock("stock:42", wait = 5.seconds) { lease ->
                    println("mine, with fencing token ${lease.token}")
                }
            }
            // README
        }

    @Test
    fun `the snippet of the other kinds runs`() =
        Steadlock.connect("memory://").use { client ->
            // README
            client.mutex("report").withLock { println("one at a time, also beside other lock libraries") }
            client.fairLock("counter").withLock { println("in order of arrival") }

            val catalogue = client.readWriteLock("catalogue") // a java.util.concurrent.locks.ReadWriteLock
            catalogue.read.withLock { println("with other readers") }
            catalogue.write.withLock { lease -> println("alone, with fencing token ${lease.token}") }

            val printers = client.semaphore("printers", limit = 3)
            printers.withPermits(2) { println("${printers.available()} is left") }

            client.multiLock(client.lock("from"), client.lock("to")).withLock { println("both or none") }
            // README
        }

    @Test
    fun `the snippet of a majority of primaries runs`() =
        runBlocking {
            // README
            Steadlock.redlock("memory://one", "memory://two", "memory://three").use { client ->
                client.withLock("voucher:42", wait = 5.seconds) { println("two of three say so") }
            }
            // README
        }

    @Test
    fun `the snippet of outages runs`() {
        // README
        val builder = Steadlock.builder().url("memory://").onUnavailable(OnUnavailable.SKIP)
        builder.breaker(failures = 5, pause = 10.seconds.toJavaDuration()).connect().use { client ->
            val report = client.lock("report")
            if (report.tryLock()) {
                report.lease.use { println("written once") }
            }
        }
        // README
    }

    @Test
    fun `the README has the tested snippets`() {
        assertEquals(shown("kotlin"), tested(Path.of("src/test/kotlin/io/github/steadlock/ReadmeKotlinTest.kt")))
        assertEquals(shown("java"), tested(Path.of("src/test/java/io/github/steadlock/JavaUsageTest.java")))
    }

    private fun shown(language: String): List<String> =
        Files.readString(Path.of("README.md")).split("```$language\n").drop(1).map {
            it.substringBefore("```").trimEnd()
        }

    private fun tested(file: Path): List<String> =
        Files.readString(file).split("// README\n").filterIndexed { part, _ -> part % 2 == 1 }
            .map {
                it.trimEnd().trimIndent().replace(
                    NAMED,
                    "redis://$1:6379",
                ).replace("memory://", "redis://localhost:6379")
            }

    private companion object {
        val NAMED = Regex("memory://(\\w+)")
    }
}

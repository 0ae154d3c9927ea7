package io.github.steadlock

import com.google.gson.JsonArray
import com.google.gson.JsonObject
import com.google.gson.JsonParser
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.DynamicTest
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import java.io.PrintWriter
import java.io.StringWriter
import java.nio.file.Files
import java.nio.file.InvalidPathException
import java.nio.file.Path
import java.time.Duration
import java.util.concurrent.TimeUnit

/**
 * Tests that no message, string representation, cause or stack trace repeats a secret that was passed in a wrong place.
 * The tests pass each shape of `ci/secrets/shapes.json` to the API of the JVM.
 */
class SecretsTest {
    private val shapes = JsonParser.parseString(Files.readString(SHAPES)).asJsonObject
    private val seen = StringBuilder()

    private val places: Map<String, (String) -> Unit> =
        mapOf(
            "connect" to { given -> open(Steadlock.builder().url(given)) },
            "redlock, one of the primaries" to
                { given -> open(Steadlock.builder().primaries("memory://a", given, "memory://b")) },
            "prefix" to { given -> open(Steadlock.builder().url("memory://").keyPrefix(given)) },
            "a file of authorities" to { given -> open(tls().tlsCaFile(path(given))) },
            "a file of a certificate" to { given -> open(tls().tlsCertFile(path(given)).tlsKeyFile(SHAPES)) },
            "a file of a key" to { given -> open(tls().tlsCertFile(SHAPES).tlsKeyFile(path(given))) },
            "a URL in a file's place" to { given -> open(tls().tlsCaFile(path(given))) },
            "a server's name" to { given -> open(tls().tlsServerName(given)) },
            "an address map" to
                { given ->
                    for (addresses in listOf(mapOf(given to "h:1"), mapOf("h:1" to given))) {
                        open(Steadlock.builder().url("redis+cluster://127.0.0.1:1").addressMap(addresses))
                    }
                },
            "name of a lock" to { given -> use { it.lock(given) } },
            "name of a mutex" to { given -> use { it.mutex(given) } },
            "name of a fair lock" to { given -> use { it.fairLock(given) } },
            "name of a read-write lock" to
                { given ->
                    use { client -> client.readWriteLock(given).also(::collect).read }
                    use { client -> client.readWriteLock(given).write }
                },
            "name of a semaphore" to
                { given ->
                    use { client -> client.semaphore(given, 1).also(::collect).permits(1) }
                    Steadlock.connect("memory://").use { client -> attempt { client.setLimit(given, 0) } }
                },
            "name of several locks" to
                { given -> use { client -> client.multiLock(client.lock(given), client.lock("other")) } },
        )

    @Test
    fun `each place of the table is tested`() {
        val wanted = all("places").filterNot { it.getAsJsonObject("not in")?.has("jvm") ?: false }
        assertEquals(wanted.map { it["place"].asString }, places.keys.toList())
    }

    @TestFactory
    fun `no secret is repeated`(): List<DynamicTest> =
        places.map { (place, attempt) ->
            dynamicTest(place) {
                val kind = all("places").single { it["place"].asString == place }["given"].asString
                for ((given, marks) in given(kind)) {
                    seen.clear()
                    attempt(given)
                    assertTrue(marks.none(seen::contains)) { "$given: $seen" }
                }
            }
        }

    private fun tls() = Steadlock.builder().url("rediss://127.0.0.1:1")

    private fun path(given: String): Path =
        try {
            Path.of(given)
        } catch (_: InvalidPathException) {
            Path.of("target/nowhere")
        }

    private fun open(builder: SteadlockBuilder) {
        collect(builder)
        attempt { builder.connectTimeout(Duration.ofSeconds(1)).connect().use { collect(it) } }
    }

    /** Acquires a lock, and makes all calls that can fail. */
    private fun use(make: (SteadlockClient) -> NamedLock) {
        val client = Steadlock.connect("memory://")
        val lock = make(client)
        Steadlock.connect("memory://").use { other ->
            collect(client)
            collect(lock)
            attempt { lock.unlock() }
            attempt { lock.held.also(::collect) }
            attempt { lock.lock(Duration.ZERO) }
            attempt { lock.tryLock() }
            attempt { collect(lock.held) }
            val stage = lock.lockAsync(LockOptions.DEFAULT.withWait(Duration.ofMillis(1)))
            attempt { stage.toCompletableFuture().get(5, TimeUnit.SECONDS) }
            attempt { other.forceRelease(lock) }
            attempt { client.forceRelease(lock) }
            attempt { lock.held.extend(Duration.ofSeconds(1)) }
            attempt { lock.unlock() }
            attempt { lock.newCondition() }
        }
        client.close()
        attempt { lock.lock() }
    }

    private fun attempt(call: () -> Any?) {
        try {
            collect(call())
        } catch (thrown: Exception) {
            collect(thrown)
        }
    }

    /** Collects everything that a program could print of a value. */
    private fun collect(value: Any?) {
        seen.append(value).append(' ')
        if (value is Throwable) {
            seen.append(StringWriter().also { value.printStackTrace(PrintWriter(it)) }).append(value.localizedMessage)
            if (value is SteadlockException) {
                seen.append(value.lockName)
            }
            value.suppressed.forEach(::collect)
            value.cause?.let(::collect)
        }
    }

    /** Returns the values to pass in a place, each with the texts that must not appear afterwards. */
    private fun given(kind: String): List<Pair<String, List<String>>> {
        if (kind == "keys") {
            return all("keys").map { it["text"].asString to listOf("hunter2") }
        }
        val field = kind.removeSuffix("s")
        return all(kind).flatMap { shape ->
            all("secrets")
                .filterNot { shape.has("unless") && shape["unless"].asString in it["raw"].asString }
                .map { secret ->
                    val made =
                        shape[field]
                            .asString
                            .replace("{raw}", secret["raw"].asString)
                            .replace("{encoded}", secret["encoded"].asString)
                    made to secret.getAsJsonArray("marks").map { it.asString }
                }
        }
    }

    private fun all(part: String): List<JsonObject> = (shapes[part] as JsonArray).map { it.asJsonObject }

    private companion object {
        val SHAPES: Path = Path.of("../../ci/secrets/shapes.json")
    }
}

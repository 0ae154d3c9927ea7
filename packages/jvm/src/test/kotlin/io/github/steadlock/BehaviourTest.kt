package io.github.steadlock

import com.google.gson.JsonObject
import com.google.gson.JsonParser
import org.junit.jupiter.api.AfterAll
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.DynamicContainer.dynamicContainer
import org.junit.jupiter.api.DynamicNode
import org.junit.jupiter.api.DynamicTest.dynamicTest
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.TestFactory
import org.junit.jupiter.api.parallel.Execution
import org.junit.jupiter.api.parallel.ExecutionMode
import java.nio.file.Files
import java.nio.file.Path
import java.util.UUID
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicInteger
import kotlin.reflect.KClass

/**
 * Runs the behaviour suite of all languages: every scenario of `ci/behaviour` for every kind of lock, on every
 * transport that `STEADLOCK_BEHAVIOUR` names. Each runs with threads, which own their locks, and with stages, which own
 * nothing.
 */
class BehaviourTest {
    private val suite = JsonParser.parseString(Files.readString(SCENARIOS)).asJsonObject
    private val kinds = suite.texts("kinds")

    // The scenarios run in parallel: each mostly waits, and each has a lock of its own.
    @TestFactory
    @Execution(ExecutionMode.CONCURRENT)
    fun scenarios(): List<DynamicNode> =
        transports().map { transport ->
            dynamicContainer(transport, CALLERS.map { callers -> of(transport, checkNotNull(callers.simpleName)) })
        }

    @Test
    fun `the suite has every kind`() {
        assertEquals(kinds.toSet(), LOCKS.keys + REDLOCK)
    }

    private fun of(transport: String, callers: String): DynamicNode {
        val tests =
            suite.objects("scenarios").flatMap { scenario ->
                val skipped = if (callers == "Threads") emptyList() else scenario.texts("skip_without_implicit_owner")
                (scenario.texts("kinds") - skipped.toSet())
                    .filter { kind -> GIVEN == null || isFirst(scenario, kind, GIVEN.size) }
                    .map { kind -> test(transport, callers, kind, scenario) }
            }
        return dynamicContainer("$transport, $callers", tests)
    }

    /** Returns whether [scenario] is the first one of [kind], and [servers] servers are enough for the kind. */
    private fun isFirst(scenario: JsonObject, kind: String, servers: Int): Boolean {
        val isPossible = kind != REDLOCK || servers >= SERVERS
        return isPossible && scenario === suite.objects("scenarios").first { kind in it.texts("kinds") }
    }

    private fun test(transport: String, callers: String, kind: String, scenario: JsonObject): DynamicNode =
        dynamicTest("$transport, $callers, $kind: ${scenario.text("name")}") {
            val count = counts.computeIfAbsent("$transport, $callers") { Count() }
            count.run.incrementAndGet()
            val acting = if (callers == "Threads") Threads() else Stages()
            Scenario(scenario, kind, URLS.getValue(transport)(), acting).use(Scenario::run)
            count.passed.incrementAndGet()
        }

    companion object {
        /** The number of servers that a RedLock needs; other kinds use only the first. */
        private const val SERVERS = 3
        private val SCENARIOS = Path.of("../../ci/behaviour/scenarios.json")
        private val CALLERS: List<KClass<out Callers>> = listOf(Threads::class, Stages::class)

        /** The URLs of servers from the environment. On these, each kind runs only one scenario. */
        private val GIVEN: List<String>? = System.getenv("STEADLOCK_BEHAVIOUR_URLS")?.split(' ')
        private val counts = ConcurrentHashMap<String, Count>()
        private val memory = List(SERVERS) { "memory://${UUID.randomUUID()}" }
        private val serve = List(SERVERS) { lazy(::ServeProcess) }
        private val redis = List(SERVERS) { lazy { RedisServer() } }
        private val URLS: Map<String, () -> List<String>> =
            mapOf(
                "memory" to { memory },
                "serve" to { serve.map { it.value.url } },
                "redis" to { redis.map { it.value.url } },
                "urls" to { GIVEN.orEmpty() },
            )

        private fun transports(): List<String> {
            if (GIVEN != null) return listOf("urls")
            val wanted = System.getenv("STEADLOCK_BEHAVIOUR") ?: return (URLS.keys - "urls").toList()
            val named = wanted.split(',').map(String::trim).filter(String::isNotEmpty)
            check(URLS.keys.containsAll(named)) { "STEADLOCK_BEHAVIOUR is \"$wanted\"; give some of ${URLS.keys}" }
            return named
        }

        @JvmStatic
        @AfterAll
        fun close() {
            (serve + redis).filter { it.isInitialized() }.forEach { it.value.close() }
            counts.toSortedMap().forEach { (where, count) ->
                println("behaviour suite, $where: ${count.run} scenarios run, ${count.passed} passed")
            }
        }
    }
}

private class Count {
    val run = AtomicInteger()
    val passed = AtomicInteger()
}

/** A process of `steadlock serve` on a free port. */
private class ServeProcess : AutoCloseable {
    private val process: Process = ProcessBuilder(command(), "serve", "--port", "0").start()
    val url: String = process.inputReader().readLine().orEmpty().substringAfter("listening on ")

    init {
        check(url.startsWith("redis://")) { "steadlock serve did not start: ${process.errorReader().readText()}" }
    }

    override fun close() {
        process.destroy()
        check(process.waitFor(5, TimeUnit.SECONDS)) { "steadlock serve does not end" }
    }

    private fun command(): String {
        val built = System.getenv("CARGO_TARGET_DIR")?.let(Path::of) ?: Path.of("../../target")
        val command = built.resolve("release/steadlock")
        check(Files.isExecutable(command)) { "$command is missing; `just build-cli` makes it" }
        return command.toString()
    }
}

package io.github.steadlock

import com.google.gson.JsonElement
import com.google.gson.JsonObject
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertThrows
import org.junit.jupiter.api.Assertions.assertTrue
import java.nio.file.Path
import java.time.Duration
import java.util.UUID
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit

/**
 * Runs one scenario of `ci/behaviour/scenarios.json` for one kind of lock. `ci/behaviour/README.md` describes the
 * steps.
 */
class Scenario(
    private val scenario: JsonObject,
    private val kind: String,
    private val urls: List<String>,
    private val callers: Callers,
) : AutoCloseable {
    private val name = "behaviour-${UUID.randomUUID()}"
    private val clients = List(2) { connect() }
    private val locks = mutableMapOf<String, Any>()
    private val leases = mutableMapOf<String, Lease>()
    private val calls = mutableMapOf<String, Call>()

    fun run() {
        scenario.objects("steps").forEachIndexed { number, step ->
            try {
                perform(step)
            } catch (failure: Throwable) {
                val where = "$kind on $urls: ${scenario.text("name")}: step ${number + 1}, $step"
                throw AssertionError("$where: $failure", failure)
            }
        }
    }

    override fun close() {
        clients.forEach(SteadlockClient::close)
        callers.close()
    }

    private fun connect(): SteadlockClient {
        val builder = Steadlock.builder()
        if (kind == REDLOCK) builder.primaries(urls) else builder.url(urls.first())
        System.getenv("STEADLOCK_BEHAVIOUR_CA")?.let { builder.tlsCaFile(Path.of(it)) }
        return (scenario.millis("lease_ms")?.let(builder::lease) ?: builder).connect()
    }

    private fun perform(step: JsonObject) {
        when (val verb = step.text("do")) {
            "acquire" -> grant(step) { acquire(step, options(step)) }
            "reenter" -> grant(step) { acquire(step, callers.within(options(step), lease(step, "within"))) }
            "try" -> tryAcquire(step)
            "race" -> race(step)
            "start" -> start(step)
            "await" -> await(step)
            "cancel" -> calls.getValue(step.text("call")).cancel()
            "release" -> {
                val outcomes = if (step.has("is")) step.texts("is") else listOf("released")
                val outcome = callers.run(task(step)) { lease(step).release() }
                assertTrue(outcome.name.lowercase() in outcomes, "$outcome")
            }
            "leave" -> leave(step)
            "extend" -> runAsExpected(step) { lease(step).extend(checkNotNull(step.millis("by_ms"))) }
            "valid" -> assertEquals(step["is"].asBoolean, lease(step).isValid)
            "held" -> assertEquals(step["is"].asBoolean, isHeld(step))
            "remaining" -> {
                val left = lease(step).remaining
                assertTrue(left >= step.millis("above") && left <= step.millis("below"), "$left")
            }
            "kept" -> {
                val end = System.nanoTime() + checkNotNull(step.millis("ms")).toNanos()
                while (System.nanoTime() < end) {
                    assertTrue(lease(step).isValid)
                    val left = checkNotNull(lock(step).holder()?.remaining)
                    assertTrue(left <= step.millis("below"), "$left")
                    Thread.sleep(20)
                }
            }
            "token" -> token(step)
            "locked" -> {
                val withinMs = step["within_ms"]?.asLong ?: 0
                awaitTrue("locked is ${step["is"]}", withinMs) { lock(step).isLocked == step["is"].asBoolean }
            }
            "available" -> assertEquals(step["is"].asInt, semaphore(step, LockOptions.DEFAULT).available())
            "force" -> assertEquals(step["is"].asBoolean, client(step).forceRelease(lock(step)))
            "set_limit" ->
                runAsExpected(step) {
                    val wasHeld = client(step).setLimit(name, step["limit"].asInt)
                    assertEquals(step["is"].asBoolean, wasHeld)
                }
            "lost" -> {
                val reported = CompletableFuture<LostReason>()
                lease(step).onLost(reported::complete)
                val reason = reported.get(within(step), TimeUnit.MILLISECONDS).name.lowercase()
                assertTrue(reason in step.texts("is"), reason)
            }
            "pause" -> Thread.sleep(step["ms"].asLong)
            "end" -> callers.end(task(step))
            "close" -> client(step).close()
            else -> error("the step $verb is not known to this runner")
        }
    }

    private fun grant(step: JsonObject, acquire: () -> Lease) {
        runAsExpected(step) {
            val lease = acquire()
            leases[step.text("as")] = lease
        }
    }

    private fun acquire(step: JsonObject, options: LockOptions): Lease =
        callers.acquire(task(step), wanted(step, options))

    private fun tryAcquire(step: JsonObject) {
        runAsExpected(step) {
            val wait = step.millis("wait_ms") ?: Duration.ZERO
            val lease = callers.tryAcquire(task(step), wanted(step, options(step)), wait)
            if (step.has("is")) {
                assertNull(lease)
            } else {
                leases[step.text("as")] = checkNotNull(lease) { "refused" }
            }
        }
    }

    private fun race(step: JsonObject) {
        val calls =
            List(step["tasks"].asInt) { number ->
                val racer = step.deepCopy().apply { addProperty("client", number % 2) }
                val wait = step.millis("wait_ms") ?: Duration.ZERO
                callers.startTry("${task(racer)} $number", wanted(racer, options(racer)), wait)
            }
        val granted = calls.mapNotNull { it.get(10, TimeUnit.SECONDS) }
        assertEquals(step["is"].asInt, granted.size)
        granted.forEachIndexed { index, lease -> leases["${step.text("as")}${index + 1}"] = lease }
    }

    private fun leave(step: JsonObject) {
        val lease = if (step.has("lease")) lease(step) else null
        if (callers.areOwners) {
            runAsExpected(step) { callers.run(task(step)) { wanted(step, LockOptions.DEFAULT).leave() } }
        } else if (lease != null) {
            // A stage has no `unlock`. The outcome of its release reports the loss that is an error for a thread.
            val lost = lease.release().takeIf { it == ReleaseOutcome.EXPIRED || it == ReleaseOutcome.STOLEN }
            assertEquals(step.has("error"), lost != null, "$lost")
            if (step.has("is")) assertTrue(lost?.name?.lowercase() in step.texts("is"), "$lost")
        }
    }

    private fun isHeld(step: JsonObject): Boolean =
        if (callers.areOwners) {
            callers.run(task(step)) { lock(step).isHeldByCurrentThread }
        } else {
            step.has("lease") && lease(step).isValid
        }

    private fun start(step: JsonObject) {
        calls[step.text("as")] = callers.start(task(step), wanted(step, options(step)))
    }

    private fun await(step: JsonObject) {
        val call = step.text("call")
        runAsExpected(step) {
            try {
                leases[call] = calls.getValue(call).granted.get(within(step), TimeUnit.MILLISECONDS)
            } catch (failed: ExecutionException) {
                throw checkNotNull(failed.cause)
            }
        }
    }

    private fun token(step: JsonObject) {
        val token = lease(step).token
        if (step.has("is")) {
            assertNull(token)
        } else {
            assertTrue(checkNotNull(token) > if (step.has("above")) checkNotNull(lease(step, "above").token) else 0)
        }
    }

    /** Runs [action], which must fail if the step has an error. */
    private fun runAsExpected(step: JsonObject, action: () -> Unit) {
        if (step.has("error")) {
            val failed = assertThrows(SteadlockException::class.java, action)
            assertEquals("${step.text("error")}Exception", failed.javaClass.simpleName, failed.message)
            if (failed is LockLostException && step.has("is")) {
                assertTrue(failed.reason?.name?.lowercase() in step.texts("is"), failed.message)
            }
        } else {
            action()
        }
    }

    private fun client(step: JsonObject): SteadlockClient = clients[step["client"]?.asInt ?: 0]

    /** Returns the name of the step's task. Each client has tasks of its own. */
    private fun task(step: JsonObject): String = "${step["client"]?.asInt ?: 0} ${step["task"]?.asString ?: "main"}"

    private fun lease(step: JsonObject, by: String = "lease"): Lease = leases.getValue(step.text(by))

    private fun within(step: JsonObject): Long = step["within_ms"]?.asLong ?: 5_000

    private fun options(step: JsonObject): LockOptions {
        var options = LockOptions.DEFAULT
        step.millis("wait_ms")?.let { options = options.withWait(it) }
        step.millis("lease_ms")?.let { options = options.withLease(it) }
        if (step["renew"]?.asBoolean == true) options = options.renewed()
        step.millis("max_hold_ms")?.let { options = options.withMaxHold(it) }
        return if (step["token"]?.asBoolean == false &&
            step.text("do") != "token"
        ) {
            options.withoutFencing()
        } else {
            options
        }
    }

    private fun wanted(step: JsonObject, options: LockOptions): Wanted {
        val permits = step["permits"]?.asInt ?: 1
        val isSemaphore = kindOf(step) == "semaphore"
        return if (isSemaphore) WantedPermits(semaphore(step, options), permits) else WantedLock(lock(step, options))
    }

    private fun kindOf(step: JsonObject): String = step["kind"]?.asString ?: kind

    private fun semaphore(step: JsonObject, options: LockOptions): NamedSemaphore =
        named(step) {
            val limit = (step["limit"] ?: scenario["limit"])?.asInt ?: 1
            client(step).semaphore(name, limit, options)
        }

    private fun lock(step: JsonObject, options: LockOptions = LockOptions.DEFAULT): NamedLock {
        val kind = kindOf(step)
        if (kind == "semaphore") return semaphore(step, options).permits(1)
        return named(step) {
            when (kind) {
                "member" -> client(step).lock("$name:a", options)
                REDLOCK -> client(step).lock(name, options)
                else -> LOCKS.getValue(kind)(client(step), name, options)
            }
        }
    }

    /** Returns the lock object that the step names, or a new one. */
    private inline fun <reified T : Any> named(step: JsonObject, make: () -> T): T {
        if (!step.has("lock")) return make()
        return locks.getOrPut("${step["client"]?.asInt ?: 0} ${step.text("lock")}", make) as T
    }
}

/** The kind of a client, not of a single lock. */
const val REDLOCK = "redlock"

/** The methods that make locks, by the core's names of the kinds. */
val LOCKS: Map<String, (SteadlockClient, String, LockOptions) -> NamedLock> =
    mapOf(
        "lock" to { client, name, options -> client.lock(name, options) },
        "mutex" to { client, name, options -> client.mutex(name, options) },
        "fair_lock" to { client, name, options -> client.fairLock(name, options) },
        "read_lock" to { client, name, options -> client.readWriteLock(name, options).read },
        "write_lock" to { client, name, options -> client.readWriteLock(name, options).write },
        "semaphore" to { client, name, options -> client.semaphore(name, 1, options).permits(1) },
        "multi" to { client, name, options ->
            client.multiLock(listOf(client.lock("$name:a"), client.mutex("$name:b")), options)
        },
    )

fun JsonObject.text(key: String): String = this[key].asString

fun JsonObject.millis(key: String): Duration? = this[key]?.asLong?.let(Duration::ofMillis)

/** Returns the value as a list: of one text, of several, or an empty list if there is no such key. */
fun JsonObject.texts(key: String): List<String> {
    val value = this[key] ?: return emptyList()
    return if (value.isJsonArray) value.asJsonArray.map(JsonElement::getAsString) else listOf(value.asString)
}

fun JsonObject.objects(key: String): List<JsonObject> = this[key].asJsonArray.map(JsonElement::getAsJsonObject)

package io.github.steadlock

import redis.clients.jedis.Jedis
import java.net.BindException
import java.net.ServerSocket
import java.nio.file.Files
import java.nio.file.Path
import java.util.concurrent.TimeUnit
import kotlin.random.Random

/** A redis-server of its own, on a free port, in a temporary directory. */
class RedisServer(vararg options: String) : AutoCloseable {
    private val options = options.toList()
    private val directory: Path = Files.createTempDirectory("steadlock-test")
    private val log: Path = directory.resolve("log")
    var port: Int = freePort()
        private set
    private var process: Process = start()
    private val password = this.options.zipWithNext().firstOrNull { it.first == "--requirepass" }?.second
    val url: String get() = "redis://127.0.0.1:$port"

    init {
        var attempts = 1
        while (!isReady()) {
            check(attempts++ < MAX_ATTEMPTS) { Files.readString(log) }
            // Another program can have taken the port after it was found free.
            port = freePort()
            process = start()
        }
    }

    /** Runs [question] on a new connection to the server. */
    fun <T> ask(question: (Jedis) -> T): T =
        Jedis("127.0.0.1", port).use { jedis ->
            password?.let(jedis::auth)
            question(jedis)
        }

    /** Returns how often the server has run scripts of this library. */
    fun scriptCalls(): Int =
        ask { it.info("commandstats") }
            .lineSequence()
            .filter { it.startsWith("cmdstat_eval") }
            .sumOf { it.substringAfter("calls=").substringBefore(',').toInt() }

    fun pause() = signal("STOP")

    fun resume() = signal("CONT")

    /** Kills the server, as if its machine died. */
    fun kill() {
        process.destroyForcibly().waitFor()
    }

    /** Starts the server again, without its data, on the same port. */
    fun startAgain() {
        process = start()
        check(isReady()) { Files.readString(log) }
    }

    override fun close() {
        kill()
        directory.toFile().deleteRecursively()
    }

    private fun signal(name: String) {
        check(ProcessBuilder("sh", "-c", "kill -$name ${process.pid()}").start().waitFor() == 0)
    }

    private fun start(): Process =
        ProcessBuilder("redis-server", "--port", "$port", "--save", "", "--appendonly", "no", *options.toTypedArray())
            .directory(directory.toFile())
            .redirectErrorStream(true)
            .redirectOutput(log.toFile())
            .start()

    /** Waits until the server accepts connections. Returns false if the server has ended. */
    private fun isReady(): Boolean {
        // Reads the log, because a connection could reach another program that took the port.
        awaitTrue("redis-server starts", withinMs = 20_000) { hasStarted() || !process.isAlive }
        return hasStarted()
    }

    private fun hasStarted(): Boolean = "Ready to accept connections" in Files.readString(log)

    private companion object {
        /** The number of attempts to start a server, each on another port. */
        const val MAX_ATTEMPTS = 5
    }
}

/**
 * Returns a port on which no program listens. The port is outside the range that systems use for outgoing connections,
 * because such a connection could occupy it before the server starts.
 */
fun freePort(): Int {
    while (true) {
        val port = Random.nextInt(10_000, 32_000)
        try {
            return ServerSocket(port).use { it.localPort }
        } catch (_: BindException) {
            continue
        }
    }
}

/** Waits until [condition] is true. */
fun awaitTrue(what: String, withinMs: Long = 10_000, condition: () -> Boolean) {
    val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(withinMs)
    while (!condition()) {
        check(System.nanoTime() < deadline) { "not within $withinMs ms: $what" }
        Thread.sleep(5)
    }
}

/** Runs [work] on another thread, and returns its result or throws its exception. */
fun <T> onAnotherThread(work: () -> T): T {
    var result: Result<T>? = null
    val thread = Thread { result = runCatching(work) }
    thread.start()
    thread.join(30_000)
    return checkNotNull(result) { "the other thread did not end within 30 s" }.getOrThrow()
}

/** Returns the threads of all clients that run callbacks. */
fun callbackThreads(): Set<Thread> =
    Thread.getAllStackTraces().keys.filter { it.name.startsWith("steadlock-callback") }.toSet()

/** The calling thread's lease of this lock, which the thread must hold. */
val NamedLock.held: Lease
    get() = checkNotNull(lease) { "this thread does not hold $this" }

/** Returns how long [work] takes, in milliseconds. */
fun millis(work: () -> Unit): Long {
    val start = System.nanoTime()
    work()
    return TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start)
}

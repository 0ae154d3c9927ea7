package io.github.steadlock

import java.time.Duration
import java.util.concurrent.CountDownLatch

/** A program that ends in the way that its first argument names. It prints `ready` when it only has to end. */
object ExitProgram {
    @JvmStatic
    fun main(arguments: Array<String>) {
        val (how, url) = arguments
        val client = Steadlock.builder().url(url).lease(Duration.ofSeconds(1)).connect()
        when (how) {
            "end-holding" -> {
                client.lock("held-main").lock()
                Thread { client.lock("held-thread").lock() }.apply { start() }.join()
            }
            "end-holding-async" -> client.lock("held").lockAsync().toCompletableFuture().join()
            "idle" -> client.lock("idle").withLock { }
            "end-on-input" -> client.lock("held").lock()
            "drain" -> drain(client)
            else -> error("no such way to end: $how")
        }
        println("ready")
        if (how == "end-on-input") {
            System.`in`.read()
        }
    }

    /** Drains like a service: a worker finishes its work, and a shutdown hook of the program waits for it. */
    private fun drain(client: SteadlockClient) {
        val holding = CountDownLatch(1)
        val stopping = CountDownLatch(1)
        val worker =
            Thread {
                val lock = client.lock("held-live")
                lock.lock()
                holding.countDown()
                stopping.await()
                Thread.sleep(3_000)
                println("drained, still valid: ${lock.held.isValid}")
            }
        worker.start()
        holding.await()
        Runtime.getRuntime().addShutdownHook(
            Thread {
                stopping.countDown()
                worker.join()
            },
        )
    }
}

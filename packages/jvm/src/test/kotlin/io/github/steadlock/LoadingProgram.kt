package io.github.steadlock

import java.time.Duration
import java.util.concurrent.CountDownLatch

/** A program that uses the library, or prints the reason why it cannot. */
object LoadingProgram {
    @JvmStatic
    fun main(arguments: Array<String>) {
        repeat(2) {
            println(runCatching { Steadlock.connect("memory://").close() }.fold({ "connected" }, Throwable::toString))
        }
    }

    /** Uses everything that could keep a class loader in memory: callbacks, owners, waits, losses. */
    @JvmStatic
    fun use() {
        val lost = CountDownLatch(1)
        Steadlock.connect("memory://").use { client ->
            client.lock("held").lock()
            client.lock("free").lockAsync().thenAccept { it.onLost { } }.toCompletableFuture().join()
            client.lock("expires").lock(Duration.ofMillis(100)).onLost { lost.countDown() }
            client.lock("other").withLock { lost.await() }
        }
    }
}

package io.github.steadlock

import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit

/**
 * A program that is refused further threads after it has printed `ready`, until it has printed `refused`. It prints
 * `recovered` at its end.
 */
object ThreadsProgram {
    @JvmStatic
    fun main(arguments: Array<String>) {
        val client = Steadlock.connect(arguments.single())
        val (held, other) = client.lock("held") to client.lock("other")
        val lease = held.lockAsync().toCompletableFuture().join()
        other.withLock { }
        awaitTrue("the callback threads end when they are idle", 20_000) { callbackThreads().isEmpty() }
        val reported = CountDownLatch(1)
        lease.onLost { reported.countDown() }
        println("ready")
        readln()

        val others = CountDownLatch(1)
        startAsManyAsPossible(others)
        repeat(3) {
            val refused = runCatching { Steadlock.connect(arguments.single()) }.exceptionOrNull()
            check(refused is UnavailableException && refused.isRetryable && "threads" in "${refused.message}") {
                "$refused"
            }
        }
        other.withLock { }
        check(client.forceRelease(held))
        awaitTrue("the loss is known") { lease.lostReason == LostReason.REMOVED }
        check(!lease.isValid)
        val stage = other.lockAsync()
        val chained = stage.thenApply(Lease::release).toCompletableFuture()
        check(!reported.await(2, TimeUnit.SECONDS)) { "a thread was started" }
        println("refused")
        readln()
        others.countDown()

        check(reported.await(10, TimeUnit.SECONDS)) { "the loss is not reported" }
        check(chained.get(10, TimeUnit.SECONDS) == ReleaseOutcome.RELEASED)
        Steadlock.connect(arguments.single()).close()
        client.close()
        println("recovered")
    }

    /**
     * Starts threads until the system refuses another one. Otherwise a new thread could reuse the stack of a thread
     * that has ended.
     */
    private fun startAsManyAsPossible(end: CountDownLatch) {
        try {
            repeat(MOST) { Thread(end::await).apply { isDaemon = true }.start() }
        } catch (_: OutOfMemoryError) {
            return
        }
        error("the limit does not hold")
    }

    private const val MOST = 100
}

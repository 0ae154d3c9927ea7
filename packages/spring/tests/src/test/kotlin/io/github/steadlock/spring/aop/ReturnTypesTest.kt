package io.github.steadlock.spring.aop

import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.Lease
import io.github.steadlock.LockActivity
import io.github.steadlock.LockLostException
import io.github.steadlock.LockOptions
import io.github.steadlock.LockTimeoutException
import io.github.steadlock.NamedLock
import io.github.steadlock.Steadlock
import io.github.steadlock.SteadlockClient
import io.github.steadlock.spring.CurrentLease
import io.github.steadlock.spring.DistributedLock
import io.github.steadlock.spring.OnCancel
import io.github.steadlock.withLock
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.DelicateCoroutinesApi
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.GlobalScope
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.single
import kotlinx.coroutines.future.await
import kotlinx.coroutines.future.future
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withContext
import org.assertj.core.api.Assertions.assertThat
import org.assertj.core.api.Assertions.assertThatThrownBy
import org.junit.jupiter.api.Test
import org.springframework.context.annotation.Bean
import org.springframework.context.annotation.Configuration
import reactor.core.publisher.Flux
import reactor.core.publisher.Mono
import java.nio.file.Files
import java.nio.file.Path
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ExecutionException
import java.util.concurrent.TimeUnit
import kotlin.time.Duration.Companion.ZERO

/**
 * Checks the table of return types in README.md, by calls of methods of each type. If `STEADLOCK_WRITE_TABLES` is set,
 * the test writes the table.
 */
class ReturnTypesTest {
    @Test
    fun `the table of return types in the readme is right`() {
        val readme = Files.readString(README)
        val before = readme.substringBefore(BEGIN) + BEGIN
        val after = END + readme.substringAfter(END)
        val table = HEAD + Type.entries.joinToString("") { it.row() }
        if (System.getenv("STEADLOCK_WRITE_TABLES") != null) Files.writeString(README, before + table + after)
        assertThat(Files.readString(README)).isEqualTo(before + table + after)
    }

    private fun Type.row(): String =
        listOf(shown, nested(), inItsOwnCode(), whereItContinues(), cancelledWhileItWaits(), cancelledWhileItRuns(), lost())
            .joinToString(" | ", "| ", " |\n")

    /** Calls an annotated method of the same lock inside another one. */
    private fun Type.nested(): String =
        with { shop, _, _ ->
            val inner = Work()
            call(shop, Work(nested = shop to inner)).result.get(20, TimeUnit.SECONDS)
            assertThat(inner.began).isDone()
            ENTERS
        }

    /**
     * Makes the client's own calls in the code of the method itself: the blocking call and the call that returns a
     * stage.
     */
    private fun Type.inItsOwnCode(): String =
        with { shop, client, _ ->
            val seen = CompletableFuture<String>()
            call(shop, Work(own = { seen.complete(clientsCalls(client)) })).result.get(20, TimeUnit.SECONDS)
            seen.get(20, TimeUnit.SECONDS)
        }

    /** Makes the same calls where the method continues later: on another thread, in an operator, after a suspension. */
    private fun Type.whereItContinues(): String =
        with { shop, client, _ ->
            if (this == Type.VALUE) return@with "–"
            val seen = CompletableFuture<String>()
            call(shop, Work(later = { seen.complete(clientsCalls(client)) })).result.get(20, TimeUnit.SECONDS)
            seen.get(20, TimeUnit.SECONDS)
        }

    private fun clientsCalls(client: SteadlockClient): String {
        val lock = client.lock(NAME)
        val blocking = lock.tryLock().also { if (it) lock.unlock() }
        val coroutine =
            try {
                runBlocking { client.withLock(NAME, wait = ZERO) { ENTERS } }
            } catch (_: InvalidArgumentException) {
                REFUSED
            } catch (_: LockTimeoutException) {
                WAITS
            }
        val stage =
            try {
                val options = LockOptions.DEFAULT.withWait(Duration.ZERO)
                lock.lockAsync(options).toCompletableFuture().get(20, TimeUnit.SECONDS).release()
                ENTERS
            } catch (failed: ExecutionException) {
                assertThat(failed).hasCauseInstanceOf(LockTimeoutException::class.java)
                WAITS
            }
        val calls = mapOf("`lock()`" to if (blocking) ENTERS else WAITS, "`lockAsync()`" to stage, "`withLock` of Kotlin" to coroutine)
        return calls.entries
            .groupBy({ it.value }, { it.key })
            .entries
            .joinToString("; ") { (outcome, of) -> if (of.size == calls.size) outcome else "${of.joinToString(", ")}: $outcome" }
    }

    private fun Type.cancelledWhileItWaits(): String =
        with { shop, client, other ->
            val held = other.lockAsync().toCompletableFuture().get(20, TimeUnit.SECONDS)
            val work = Work(own = { error("it ran") })
            LockActivity.watch(client).use { activity ->
                val running = call(shop, work)
                awaitTrue { activity.waiting().isNotEmpty() }
                running.cancel()
                awaitTrue { activity.waiting().isEmpty() && running.result.isDone }
            }
            held.release()
            assertThat(other.tryLock(20, TimeUnit.SECONDS)).isTrue()
            "nothing stays behind"
        }

    private fun Type.cancelledWhileItRuns(): String =
        with { shop, _, other ->
            if (this == Type.VALUE) return@with "–"
            val work = Work(body = CompletableFuture())
            val running = call(shop, work)
            work.runs.get(20, TimeUnit.SECONDS)
            running.cancel()
            val atOnce = "released at once"
            if (other.tryLock(timeLimitFor(atOnce), TimeUnit.SECONDS)) return@with atOnce
            work.proceed.complete(Unit)
            work.body.complete("late")
            assertThat(other.tryLock(20, TimeUnit.SECONDS)).isTrue()
            "held until its own code has ended"
        }

    private fun Type.lost(): String =
        with { shop, client, _ ->
            val held = CompletableFuture<Lease>()
            val lost = CompletableFuture<Any>()
            val body = CompletableFuture<String>()
            val work =
                Work(body = body, own = {
                    held.complete(CurrentLease.get())
                    CurrentLease.get().onLost(lost::complete)
                })
            val running = call(shop, work)
            work.runs.get(20, TimeUnit.SECONDS)
            client.forceRelease(client.lock(NAME))
            // The extension finds the loss at once, and the watchdog only at the next renewal.
            assertThatThrownBy { held.get().extend(Duration.ofMinutes(1)) }.isInstanceOf(LockLostException::class.java)
            lost.get(20, TimeUnit.SECONDS)
            val cancelled = "it is cancelled"
            val isCancelled =
                try {
                    work.cancelled.get(timeLimitFor(cancelled), TimeUnit.SECONDS)
                    true
                } catch (_: java.util.concurrent.TimeoutException) {
                    false
                }
            work.proceed.complete(Unit)
            body.complete("late")
            val failure = runCatching { running.result.get(20, TimeUnit.SECONDS) }.exceptionOrNull()
            assertThat(failure).hasCauseInstanceOf(LockLostException::class.java)
            if (isCancelled) cancelled else "it runs on"
        }

    /** Returns how many seconds to wait for an outcome: 20 if the table has it, and 1 to see that it does not come. */
    private fun Type.timeLimitFor(outcome: String): Long {
        val isInTable = Files.readAllLines(README).any { it.startsWith("| $shown |") && outcome in it }
        return if (isInTable) 20 else 1
    }

    private fun <T> with(test: (Shop, SteadlockClient, NamedLock) -> T): T {
        var result: T? = null
        val server = Programs.server()
        Programs.on(server, Config::class.java).run { context ->
            Steadlock.connect(server).use { other ->
                val (shop, client) = context.getBean(Shop::class.java) to context.getBean(SteadlockClient::class.java)
                result = test(shop, client, other.lock(NAME))
                // The lock is free afterwards in every case.
                assertThat(other.lock(NAME).let { it.isHeldByCurrentThread || it.tryLock(20, TimeUnit.SECONDS) }).isTrue()
            }
        }
        return result!!
    }

    private fun awaitTrue(condition: () -> Boolean) {
        val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
        while (!condition()) {
            check(System.nanoTime() < end) { "it did not come true within 20 s" }
            Thread.sleep(1)
        }
    }

    /** The work of a method: [own] runs in its own code, [later] where it continues, and [body] is its end. */
    class Work(
        val own: () -> Unit = {},
        val later: () -> Unit = {},
        val nested: Pair<Shop, Work>? = null,
        val body: CompletableFuture<String> = CompletableFuture.completedFuture("done"),
    ) {
        val began = CompletableFuture<Unit>()

        /** Completes when the part of the method that runs later has begun. */
        val runs = CompletableFuture<Unit>()
        val cancelled = CompletableFuture<Unit>()

        /** A future that a cancelled method waits for. Only for types whose code can notice the cancellation. */
        val proceed = CompletableFuture<Unit>()

        fun begin() {
            own()
            began.complete(Unit)
        }
    }

    /** A running call. */
    class Running(
        val result: CompletableFuture<String>,
        val cancel: () -> Unit,
    )

    @OptIn(DelicateCoroutinesApi::class)
    enum class Type(
        val shown: String,
        val call: (Shop, Work) -> Running,
    ) {
        VALUE("a value", { shop, work -> onThread { CompletableFuture.completedFuture(shop.value(work)) } }),
        STAGE("`CompletionStage`, `CompletableFuture`", { shop, work -> onThread { shop.stage(work) } }),
        RELEASED_STAGE("the same, `onCancel = RELEASE`", { shop, work -> onThread { shop.released(work) } }),
        MONO("`Mono`", { shop, work -> shop.mono(work).toFuture().let { Running(it) { it.cancel(true) } } }),
        FLUX("`Flux`", { shop, work -> shop.flux(work).single().toFuture().let { Running(it) { it.cancel(true) } } }),
        FLOW("`Flow`", { shop, work ->
            GlobalScope.future(Dispatchers.Default) { shop.flow(work).single() }.let { Running(it) { it.cancel(true) } }
        }),
        SUSPENDING("`suspend` function", { shop, work ->
            GlobalScope.future(Dispatchers.Default) { shop.suspending(work) }.let { Running(it) { it.cancel(true) } }
        }),
        ;

        private companion object {
            /**
             * Runs a call on a thread. Cancelling interrupts the thread while the call blocks it, and later cancels the
             * stage that the call returned.
             */
            fun onThread(call: () -> CompletableFuture<String>): Running {
                val result = CompletableFuture<String>()
                val given = CompletableFuture<CompletableFuture<String>>()
                val thread =
                    Thread {
                        try {
                            val stage = call()
                            given.complete(stage)
                            stage.whenComplete { value, failure ->
                                if (failure == null) result.complete(value) else result.completeExceptionally(failure)
                            }
                        } catch (failure: Throwable) {
                            result.completeExceptionally(failure)
                        }
                    }
                thread.start()
                return Running(result) {
                    thread.interrupt()
                    given.thenAccept { it.cancel(true) }
                }
            }
        }
    }

    open class Shop {
        @DistributedLock(name = "'$NAME'")
        open fun value(work: Work): String {
            work.begin()
            work.nested?.let { (shop, inner) -> shop.value(inner) }
            work.runs.complete(Unit)
            return work.body.get()
        }

        @DistributedLock(name = "'$NAME'")
        open fun stage(work: Work): CompletableFuture<String> = stageOf(work)

        @DistributedLock(name = "'$NAME'", onCancel = OnCancel.RELEASE)
        open fun released(work: Work): CompletableFuture<String> = stageOf(work)

        private fun stageOf(work: Work): CompletableFuture<String> {
            work.begin()
            work.nested?.let { (shop, inner) -> shop.stage(inner).get(20, TimeUnit.SECONDS) }
            work.runs.complete(Unit)
            return work.body.thenApplyAsync { it.also { work.later() } }
        }

        @DistributedLock(name = "'$NAME'")
        open fun mono(work: Work): Mono<String> = monoOf(work)

        @DistributedLock(name = "'$NAME'")
        open fun flux(work: Work): Flux<String> = monoOf(work).flux()

        private fun monoOf(work: Work): Mono<String> {
            work.begin()
            val nested = work.nested?.let { (shop, inner) -> shop.mono(inner) } ?: Mono.empty()
            return nested
                .then(Mono.fromFuture({ work.body }, true))
                .doOnSubscribe { work.runs.complete(Unit) }
                .doOnCancel { work.cancelled.complete(Unit) }
                .map { it.also { work.later() } }
        }

        @DistributedLock(name = "'$NAME'")
        open fun flow(work: Work): Flow<String> {
            work.begin()
            return flow {
                work.nested?.let { (shop, inner) -> shop.flow(inner).single() }
                emit(awaited(work))
            }
        }

        @DistributedLock(name = "'$NAME'")
        open suspend fun suspending(work: Work): String {
            work.begin()
            work.nested?.let { (shop, inner) -> shop.suspending(inner) }
            return awaited(work)
        }

        private suspend fun awaited(work: Work): String {
            try {
                work.runs.complete(Unit)
                return work.body.await().also { work.later() }
            } catch (cancelled: CancellationException) {
                work.cancelled.complete(Unit)
                withContext(NonCancellable) { work.proceed.await() }
                throw cancelled
            }
        }
    }

    @Configuration
    open class Config {
        @Bean
        open fun shop() = Shop()
    }

    private companion object {
        const val NAME = "stock"
        const val ENTERS = "enters again"
        const val REFUSED = "refused at once"
        const val WAITS = "waits"
        const val BEGIN = "<!-- return types -->\n"
        const val END = "<!-- end of return types -->"
        const val HEAD =
            "| a method that gives | annotated calls of the same type inside | calls of the client in its own code | " +
                "the same where it continues | cancelled while it waits | cancelled while it runs | lease lost |\n" +
                "|---|---|---|---|---|---|---|\n"
        val README: Path = Path.of("../README.md")
    }
}

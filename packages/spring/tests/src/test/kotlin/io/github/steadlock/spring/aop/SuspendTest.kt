package io.github.steadlock.spring.aop

import io.github.steadlock.LockLostException
import io.github.steadlock.LockTimeoutException
import io.github.steadlock.SteadlockClient
import io.github.steadlock.spring.CurrentLease
import io.github.steadlock.spring.DistributedLock
import io.github.steadlock.spring.LockKind
import io.github.steadlock.spring.OnBusy
import kotlinx.coroutines.CompletableDeferred
import kotlinx.coroutines.CoroutineScope
import kotlinx.coroutines.CoroutineStart
import kotlinx.coroutines.Dispatchers
import kotlinx.coroutines.SupervisorJob
import kotlinx.coroutines.async
import kotlinx.coroutines.awaitCancellation
import kotlinx.coroutines.cancelAndJoin
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.flow.toList
import kotlinx.coroutines.future.await
import kotlinx.coroutines.launch
import kotlinx.coroutines.reactor.awaitSingleOrNull
import kotlinx.coroutines.runBlocking
import kotlinx.coroutines.withTimeout
import kotlinx.coroutines.yield
import org.assertj.core.api.Assertions.assertThat
import org.junit.jupiter.api.Test
import org.springframework.context.annotation.Bean
import org.springframework.context.annotation.Configuration
import java.util.Optional
import java.util.concurrent.CompletableFuture

/** Tests annotated suspend functions and flows. */
class SuspendTest {
    @Test
    fun `a suspend function holds its lock across its suspensions`() =
        with { shop, client ->
            val isHeld =
                shop.buy(7) {
                    yield()
                    client.lock("voucher:7").isLocked && !CompletableFuture.supplyAsync { client.lock("voucher:7").tryLock() }.await()
                }
            assertThat(isHeld).isTrue()
            assertThat(client.lock("voucher:7").isLocked).isFalse()
        }

    @Test
    fun `a nested call of the same lock enters it again`() =
        with { shop, client ->
            assertThat(withTimeout(10_000) { shop.buy(7) { shop.buy(7) { true } } }).isTrue()
            assertThat(client.lock("voucher:7").isLocked).isFalse()
        }

    @Test
    fun `a nested call of a mutex is refused rather than waiting for itself`() =
        with { shop, client ->
            val thrown = runCatching { withTimeout(10_000) { shop.mutex { shop.mutex { true } } } }.exceptionOrNull()
            assertThat(thrown).isInstanceOf(IllegalStateException::class.java).hasMessageContaining("wait for itself")
            assertThat(client.mutex("mutex").isLocked).isFalse()
        }

    @Test
    fun `cancelling a waiting caller leaves no record`() =
        with { shop, client ->
            val lease = client.lock("voucher:7").lockAsync().await()
            val waiting = launch(Dispatchers.Default, CoroutineStart.UNDISPATCHED) { shop.buy(7) { error("it ran") } }
            waiting.cancelAndJoin()
            lease.release()
            assertThat(client.lock("voucher:7").tryLock()).isTrue()
            client.lock("voucher:7").unlock()
        }

    @Test
    fun `cancelling a running caller releases the lock`() =
        with { shop, client ->
            val running = CompletableDeferred<Unit>()
            val job =
                launch(Dispatchers.Default) {
                    shop.buy(7) {
                        running.complete(Unit)
                        awaitCancellation()
                    }
                }
            running.await()
            job.cancelAndJoin()
            // This call returns when the lock is free.
            client
                .lock("voucher:7")
                .lockAsync()
                .await()
                .release()
        }

    @Test
    fun `a loss cancels the body and is thrown to the caller`() =
        with("steadlock.lease=300ms") { shop, client ->
            val running = CompletableDeferred<Unit>()
            val cancelled = CompletableDeferred<Unit>()
            val call =
                async(SupervisorJob()) {
                    shop.buy(7) {
                        try {
                            running.complete(Unit)
                            awaitCancellation()
                        } finally {
                            cancelled.complete(Unit)
                        }
                    }
                }
            running.await()
            client.forceRelease(client.lock("voucher:7"))
            assertThat(runCatching { call.await() }.exceptionOrNull()).isInstanceOf(LockLostException::class.java)
            cancelled.await()
        }

    @Test
    fun `a busy lock throws, skips or calls the handler`() =
        with { shop, client ->
            val lease = client.lock("voucher:7").lockAsync().await()
            assertThat(runCatching { shop.hurried(7) }.exceptionOrNull()).isInstanceOf(LockTimeoutException::class.java)
            assertThat(shop.skipped(7)).isNull()
            assertThat(shop.skippedOptional(7)).isEmpty
            assertThat(shop.answered(7)).isEqualTo("busy: 7 LockTimeoutException")
            lease.release()
            assertThat(shop.skipped(7)).isEqualTo("done")
            assertThat(shop.answered(7)).isEqualTo("done")
        }

    @Test
    fun `a flow holds its lock for each collector until it has ended`() =
        with { shop, client ->
            assertThat(shop.flowing(client).toList()).containsExactly(true, true)
            assertThat(shop.suspendedFlow(client).toList()).containsExactly(true, true)
            assertThat(client.lock("flow").isLocked).isFalse()
        }

    @Test
    fun `the lease of a suspend function is found`() =
        with { shop, _ ->
            val token = shop.buy(7) { CurrentLease.reactive().awaitSingleOrNull()?.token }
            assertThat(token).isNotNull()
        }

    @Test
    fun `two callers of a process exclude each other`() =
        with { shop, _ ->
            var count = 0
            val all =
                List(40) {
                    async(Dispatchers.Default) {
                        shop.buy(7) {
                            val before = count
                            yield()
                            count = before + 1
                        }
                    }
                }
            all.forEach { it.await() }
            assertThat(count).isEqualTo(40)
        }

    private fun with(
        vararg properties: String,
        test: suspend CoroutineScope.(Shop, SteadlockClient) -> Unit,
    ) {
        Programs.program(Config::class.java).withPropertyValues(*properties).run { context ->
            runBlocking {
                withTimeout(20_000) { test(context.getBean(Shop::class.java), context.getBean(SteadlockClient::class.java)) }
            }
        }
    }

    open class Shop {
        @DistributedLock(name = "'voucher:' + #userId")
        open suspend fun <T> buy(
            userId: Long,
            body: suspend () -> T,
        ): T = body()

        @DistributedLock(name = "'mutex'", kind = LockKind.MUTEX)
        open suspend fun mutex(body: suspend () -> Boolean): Boolean = body()

        @DistributedLock(name = "'voucher:' + #userId", waitTime = "0s")
        open suspend fun hurried(userId: Long): String = "done"

        @DistributedLock(name = "'voucher:' + #userId", waitTime = "0s", onBusy = OnBusy.SKIP)
        open suspend fun skipped(userId: Long): String? = "done"

        @DistributedLock(name = "'voucher:' + #userId", waitTime = "0s", onBusy = OnBusy.SKIP)
        open suspend fun skippedOptional(userId: Long): Optional<String> = Optional.of("done")

        @DistributedLock(name = "'voucher:' + #userId", waitTime = "0s", busyHandler = "busy")
        open suspend fun answered(userId: Long): String = "done"

        private suspend fun busy(
            userId: Long,
            why: RuntimeException,
        ): String {
            yield()
            return "busy: $userId ${why.javaClass.simpleName}"
        }

        @DistributedLock(name = "'flow'")
        open fun flowing(client: SteadlockClient): Flow<Boolean> =
            flow {
                emit(client.lock("flow").isLocked)
                emit(client.lock("flow").isLocked)
            }

        @DistributedLock(name = "'flow'")
        open suspend fun suspendedFlow(client: SteadlockClient): Flow<Boolean> {
            yield()
            return flowOfLocked(client)
        }

        private fun flowOfLocked(client: SteadlockClient) =
            flow {
                emit(client.lock("flow").isLocked)
                emit(client.lock("flow").isLocked)
            }
    }

    @Configuration
    open class Config {
        @Bean
        open fun shop() = Shop()
    }
}

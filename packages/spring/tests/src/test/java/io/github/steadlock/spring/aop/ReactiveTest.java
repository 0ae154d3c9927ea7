package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.Lease;
import io.github.steadlock.LockLostException;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.LockKind;
import io.github.steadlock.spring.OnCancel;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import org.junit.jupiter.api.Test;
import org.reactivestreams.Publisher;
import org.reactivestreams.Subscription;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import reactor.core.Disposable;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Tests annotated methods that return publishers. */
class ReactiveTest {
    private static final Duration LONG = Duration.ofSeconds(20);

    @Test
    void each_subscriber_holds_the_lock_until_its_publisher_has_ended() {
        with(
                (shop, client) -> {
                    Mono<Boolean> one = shop.mono(Mono.fromSupplier(() -> isLocked(client)));
                    assertThat(isLocked(client)).isFalse();
                    for (int i = 0; i < 3; i++) {
                        assertThat(one.block(LONG)).isTrue();
                        assertThat(isLocked(client)).isFalse();
                    }
                    assertThat(shop.count()).isEqualTo(3);
                    Flux<Boolean> several = shop.flux(Flux.range(0, 3).map(i -> isLocked(client)));
                    assertThat(several.collectList().block(LONG)).containsExactly(true, true, true);
                    assertThat(isLocked(client)).isFalse();
                });
    }

    @Test
    void a_failure_of_the_publisher_is_delivered_and_the_lock_is_released() {
        with(
                (shop, client) -> {
                    assertThatThrownBy(
                                    () ->
                                            shop.mono(Mono.error(new IllegalStateException("no")))
                                                    .block(LONG))
                            .hasMessage("no");
                    assertThatThrownBy(shop.throwing()::block).hasMessage("at once");
                    assertThat(isLocked(client)).isFalse();
                });
    }

    @Test
    void subscribers_exclude_each_other() {
        with(
                (shop, client) -> {
                    var inside = new AtomicInteger();
                    var most = new AtomicInteger();
                    Mono<Integer> body =
                            Mono.fromSupplier(
                                            () ->
                                                    most.accumulateAndGet(
                                                            inside.incrementAndGet(), Math::max))
                                    .delayElement(Duration.ofMillis(1))
                                    .doOnNext(n -> inside.decrementAndGet());
                    Flux.range(0, 40).flatMap(i -> shop.mono(body), 40).blockLast(LONG);
                    assertThat(most.get()).isEqualTo(1);
                });
    }

    @Test
    void cancelling_a_waiting_call_cancels_the_attempt() throws Exception {
        with(
                (shop, client) -> {
                    Lease lease = client.lock("stock").lockAsync().toCompletableFuture().get();
                    Disposable waiting =
                            shop.mono(Mono.error(new AssertionError("it ran"))).subscribe();
                    waiting.dispose();
                    lease.release();
                    awaitFree(client);
                    assertThat(shop.count()).isZero();
                });
    }

    @Test
    void cancelling_a_running_call_cancels_the_body_and_releases_the_lock() {
        with(
                (shop, client) -> {
                    var running = new CountDownLatch(1);
                    var cancelled = new CountDownLatch(1);
                    Disposable call =
                            shop.mono(
                                            Mono.never()
                                                    .doOnSubscribe(it -> running.countDown())
                                                    .doOnCancel(cancelled::countDown))
                                    .subscribe();
                    Programs.await(running);
                    call.dispose();
                    Programs.await(cancelled);
                    awaitFree(client);
                });
    }

    @Test
    void an_early_cancellation_leaves_no_record() {
        with(
                (shop, client) -> {
                    for (int i = 0; i < 300; i++) {
                        Disposable call = shop.mono(Mono.delay(Duration.ofMillis(1))).subscribe();
                        long pause = ThreadLocalRandom.current().nextLong(400_000);
                        long start = System.nanoTime();
                        while (System.nanoTime() - start < pause) {
                            Thread.onSpinWait();
                        }
                        call.dispose();
                    }
                    awaitFree(client);
                });
    }

    @Test
    void a_loss_cancels_the_body_and_fails_the_subscriber() {
        var running = new CountDownLatch(1);
        var cancelled = new CountDownLatch(1);
        failsWithItsLoss(
                Mono.never()
                        .doOnSubscribe(it -> running.countDown())
                        .doOnCancel(cancelled::countDown),
                running);
        Programs.await(cancelled);
    }

    @Test
    void the_subscriber_gets_the_loss_and_not_the_failure_of_the_cancelled_body() {
        var running = new CountDownLatch(1);
        Publisher<String> failing =
                subscriber -> {
                    Runnable fail =
                            () -> subscriber.onError(new IllegalStateException("interrupted"));
                    subscriber.onSubscribe(new Cancelling(fail));
                    running.countDown();
                };
        failsWithItsLoss(Mono.from(failing), running);
    }

    private static void failsWithItsLoss(Mono<?> body, CountDownLatch running) {
        Programs.program(Config.class)
                .withPropertyValues("steadlock.lease=300ms")
                .run(
                        context -> {
                            var client = context.getBean(SteadlockClient.class);
                            var call = context.getBean(Shop.class).mono(body).toFuture();
                            Programs.await(running);
                            client.forceRelease(client.lock("stock"));
                            assertThat(call)
                                    .failsWithin(LONG)
                                    .withThrowableThat()
                                    .withCauseInstanceOf(LockLostException.class);
                        });
    }

    @Test
    void a_nested_call_of_the_same_context_reenters() {
        with(
                (shop, client) -> {
                    assertThat(
                                    shop.mono(Mono.defer(() -> shop.mono(Mono.just("inner"))))
                                            .block(LONG))
                            .isEqualTo("inner");
                    awaitFree(client);
                });
    }

    @Test
    void a_nested_call_that_would_wait_for_itself_is_refused() {
        with(
                (shop, client) -> {
                    assertThatThrownBy(() -> shop.mutex(shop.mutex(Mono.just(1))).block(LONG))
                            .isInstanceOf(IllegalStateException.class)
                            .hasMessageContaining("would wait for itself");
                    assertThatThrownBy(
                                    () ->
                                            shop.several(
                                                            List.of("stock", "b"),
                                                            shop.mono(Mono.just(1)))
                                                    .block(LONG))
                            .isInstanceOf(IllegalStateException.class);
                    awaitFree(client);
                    assertThat(client.mutex("mutex").isLocked()).isFalse();
                });
    }

    @Test
    void the_lease_is_in_the_context() {
        with(
                (shop, client) ->
                        assertThat(
                                        shop.mono(CurrentLease.reactive().map(Lease::getToken))
                                                .block(LONG))
                                .isNotNull());
    }

    @Test
    void the_lock_of_a_stage_is_held_until_it_completes() {
        with(
                (shop, client) -> {
                    var body = new CompletableFuture<String>();
                    CompletableFuture<String> result = shop.stage(body);
                    assertThat(isLocked(client)).isTrue();
                    assertThat(client.lock("stock").tryLock()).isFalse();
                    body.complete("done");
                    assertThat(result.get(20, TimeUnit.SECONDS)).isEqualTo("done");
                    assertThat(isLocked(client)).isFalse();
                });
    }

    @Test
    void the_lock_of_a_stage_that_fails_is_released() {
        with(
                (shop, client) -> {
                    var failing = new CompletableFuture<String>();
                    var result = shop.stage(failing);
                    failing.completeExceptionally(new IllegalStateException("no"));
                    assertThat(result)
                            .failsWithin(LONG)
                            .withThrowableThat()
                            .withMessageContaining("no");
                    awaitFree(client);
                });
    }

    @Test
    void the_lock_of_a_cancelled_stage_is_held_until_its_work_is_done() {
        with(
                (shop, client) -> {
                    var work = new CompletableFuture<String>();
                    var result = shop.stage(work);
                    assertThat(result.cancel(true)).isTrue();
                    assertThat(work).isNotDone();
                    assertThat(client.lock("stock").tryLock()).isFalse();
                    work.complete("done");
                    awaitFree(client);
                    assertThat(result).isCancelled();
                });
    }

    @Test
    void onCancel_release_releases_the_lock_of_a_cancelled_stage() {
        with(
                (shop, client) -> {
                    var work = new CompletableFuture<String>();
                    shop.cancellable(work).cancel(true);
                    assertThat(work).isCancelled();
                    awaitFree(client);
                });
    }

    @Test
    void onCancel_release_releases_the_lock_however_the_stage_is_completed() {
        List<Consumer<CompletableFuture<String>>> ends =
                List.of(
                        result -> result.orTimeout(1, TimeUnit.MILLISECONDS),
                        result -> result.completeOnTimeout("late", 1, TimeUnit.MILLISECONDS),
                        result -> result.completeExceptionally(new IOException("gone")),
                        result -> result.complete("enough"));
        with(
                (shop, client) -> {
                    for (var end : ends) {
                        var work = new CompletableFuture<String>();
                        end.accept(shop.cancellable(work));
                        awaitFree(client);
                        assertThat(work).isCancelled();
                    }
                });
    }

    @Test
    void onCancel_release_works_for_a_minimal_stage() {
        with(
                (shop, client) -> {
                    var work = new CompletableFuture<String>();
                    var result = shop.minimal(work).toCompletableFuture();
                    result.cancel(true);
                    awaitFree(client);
                    assertThat(work).isNotDone();
                    work.complete("done");
                    assertThat(result).isCancelled();
                });
    }

    @Test
    void code_of_a_stage_can_reenter_its_lock_by_the_client() {
        with(
                (shop, client) -> {
                    var lock = client.lock("stock");
                    var result =
                            shop.stageOf(
                                    () -> {
                                        lock.lock();
                                        try {
                                            return lock.getHoldCount();
                                        } finally {
                                            lock.unlock();
                                        }
                                    });
                    assertThat(result.get(20, TimeUnit.SECONDS)).isEqualTo(2);
                    assertThat(lock.isHeldByCurrentThread()).isFalse();
                    awaitFree(client);
                });
    }

    @Test
    void a_later_thread_of_a_stage_reenters_by_its_lease() {
        with(
                (shop, client) -> {
                    var lock = client.lock("stock");
                    var result =
                            shop.later(
                                    lease -> {
                                        try (var scope = lease.makeCurrent()) {
                                            lock.lock();
                                            lock.unlock();
                                            return shop.blocking(() -> "inside");
                                        }
                                    });
                    assertThat(result.get(20, TimeUnit.SECONDS)).isEqualTo("inside");
                    awaitFree(client);
                });
    }

    @Test
    void stages_and_blocking_methods_reenter_each_other() {
        with(
                (shop, client) -> {
                    String inner =
                            shop.blocking(
                                    () ->
                                            shop.stage(CompletableFuture.completedFuture("inner"))
                                                    .join());
                    assertThat(inner).isEqualTo("inner");
                    awaitFree(client);
                    var outer = shop.stageOf(() -> shop.blocking(() -> "blocking"));
                    assertThat(outer.get(20, TimeUnit.SECONDS)).isEqualTo("blocking");
                    awaitFree(client);
                });
    }

    @Test
    void a_stage_whose_lease_was_lost_fails() {
        Programs.program(Config.class)
                .withPropertyValues("steadlock.lease=300ms")
                .run(
                        context -> {
                            var client = context.getBean(SteadlockClient.class);
                            var shop = context.getBean(Shop.class);
                            var lost = new CountDownLatch(1);
                            var result =
                                    shop.stageOf(
                                            () -> {
                                                CurrentLease.get()
                                                        .onLost(reason -> lost.countDown());
                                                client.forceRelease(client.lock("stock"));
                                                Programs.await(lost);
                                                return "done";
                                            });
                            assertThat(result)
                                    .failsWithin(LONG)
                                    .withThrowableThat()
                                    .withCauseInstanceOf(LockLostException.class);
                        });
    }

    private static boolean isLocked(SteadlockClient client) {
        return client.lock("stock").isLocked();
    }

    /**
     * The subscription of a publisher that emits nothing and runs an action when it is cancelled.
     */
    private record Cancelling(Runnable cancelled) implements Subscription {
        @Override
        public void request(long number) {}

        @Override
        public void cancel() {
            cancelled.run();
        }
    }

    /** Waits until the lock is free. */
    private static void awaitFree(SteadlockClient client) throws Exception {
        client.lock("stock").lockAsync().toCompletableFuture().get(20, TimeUnit.SECONDS).release();
    }

    private static void with(Body test) {
        Programs.program(Config.class)
                .run(
                        context ->
                                test.run(
                                        context.getBean(Shop.class),
                                        context.getBean(SteadlockClient.class)));
    }

    interface Body {
        void run(Shop shop, SteadlockClient client) throws Exception;
    }

    static class Shop {
        private final AtomicInteger count = new AtomicInteger();

        @DistributedLock(name = "'stock'")
        public <T> Mono<T> mono(Mono<T> body) {
            counted();
            return body;
        }

        @DistributedLock(name = "'stock'")
        public <T> Flux<T> flux(Flux<T> body) {
            return body;
        }

        @DistributedLock(name = "'stock'")
        public Mono<String> throwing() {
            throw new IllegalStateException("at once");
        }

        @DistributedLock(name = "'mutex'", kind = LockKind.MUTEX)
        public <T> Mono<T> mutex(Mono<T> body) {
            return body;
        }

        @DistributedLock(name = "#names")
        public <T> Mono<T> several(List<String> names, Mono<T> body) {
            return body;
        }

        @DistributedLock(name = "'stock'")
        public <T> CompletableFuture<T> stage(CompletableFuture<T> body) {
            return body;
        }

        @DistributedLock(name = "'stock'")
        public <T> CompletableFuture<T> stageOf(java.util.function.Supplier<T> body) {
            return CompletableFuture.completedFuture(body.get());
        }

        @DistributedLock(name = "'stock'", onCancel = OnCancel.RELEASE)
        public <T> CompletableFuture<T> cancellable(CompletableFuture<T> body) {
            return body;
        }

        @DistributedLock(name = "'stock'", onCancel = OnCancel.RELEASE)
        public <T> CompletionStage<T> minimal(CompletableFuture<T> body) {
            return body.minimalCompletionStage();
        }

        @DistributedLock(name = "'stock'")
        public <T> CompletableFuture<T> later(java.util.function.Function<Lease, T> body) {
            Lease lease = CurrentLease.get();
            return CompletableFuture.supplyAsync(() -> body.apply(lease));
        }

        @DistributedLock(name = "'stock'")
        public <T> T blocking(java.util.function.Supplier<T> body) {
            return body.get();
        }

        public int count() {
            return count.get();
        }

        private void counted() {
            count.incrementAndGet();
        }
    }

    @Configuration
    static class Config {
        @Bean
        Shop shop() {
            return new Shop();
        }
    }
}

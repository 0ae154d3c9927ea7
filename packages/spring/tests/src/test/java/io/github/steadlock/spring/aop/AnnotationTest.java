package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.LockLostException;
import io.github.steadlock.LockTimeoutException;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.LockInterruptedException;
import io.github.steadlock.spring.LockKind;
import java.io.IOException;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.AliasFor;

/** Tests {@code @DistributedLock} on blocking methods. */
class AnnotationTest {
    @Test
    void a_method_runs_while_it_holds_its_lock_and_releases_it_at_the_end() {
        with(
                (shop, client) -> {
                    assertThat(
                                    shop.<Boolean>buy(
                                            7,
                                            () -> client.lock("voucher:7").isHeldByCurrentThread()))
                            .isTrue();
                    assertThat(client.lock("voucher:7").isLocked()).isFalse();
                });
    }

    @Test
    void an_exception_of_the_body_is_thrown_and_the_lock_is_released() {
        with(
                (shop, client) -> {
                    assertThatThrownBy(() -> shop.failing())
                            .isInstanceOf(IOException.class)
                            .hasMessage("no");
                    assertThat(client.lock("failing").isLocked()).isFalse();
                });
    }

    @Test
    void a_thread_reenters_its_lock() {
        with(
                (shop, client) -> {
                    int holds =
                            shop.buy(
                                    7,
                                    () ->
                                            shop.buy(
                                                    7,
                                                    () -> client.lock("voucher:7").getHoldCount()));
                    assertThat(holds).isEqualTo(2);
                    assertThat(client.lock("voucher:7").isLocked()).isFalse();
                });
    }

    @Test
    void a_mutex_within_itself_is_refused_rather_than_waiting_for_itself() {
        with(
                (shop, client) -> {
                    assertThatThrownBy(() -> shop.mutex(() -> shop.mutex(() -> true)))
                            .isInstanceOf(IllegalStateException.class)
                            .hasMessageContaining("would wait for itself");
                    assertThat(client.mutex("mutex").isLocked()).isFalse();
                });
    }

    @Test
    void nested_calls_acquire_separate_permits() {
        with(
                (shop, client) -> {
                    assertThat(
                                    shop.semaphore(
                                            () ->
                                                    shop.semaphore(
                                                            () ->
                                                                    client.semaphore("permits", 3)
                                                                                    .available()
                                                                            == 1)))
                            .isTrue();
                    assertThat(client.semaphore("permits", 3).available()).isEqualTo(3);
                });
    }

    @Test
    void waiting_for_a_permit_of_an_enclosing_call_is_refused() {
        with(
                (shop, client) -> {
                    assertThatThrownBy(
                                    () ->
                                            shop.semaphore(
                                                    () ->
                                                            shop.semaphore(
                                                                    () ->
                                                                            shop.semaphore(
                                                                                    () ->
                                                                                            shop
                                                                                                    .semaphore(
                                                                                                            () ->
                                                                                                                    true)))))
                            .isInstanceOf(IllegalStateException.class)
                            .hasMessageContaining("all 3 permits");
                    assertThat(client.semaphore("permits", 3).available()).isEqualTo(3);
                });
    }

    @Test
    void a_composite_lock_is_reentered() {
        with(
                (shop, client) -> {
                    var items = List.of("a", "b");
                    assertThat(shop.several(items, () -> shop.several(items, () -> true))).isTrue();
                    assertThat(client.lock("item:a").isLocked()).isFalse();
                });
    }

    @Test
    void the_annotation_can_be_switched_off() {
        Programs.program(Config.class)
                .withPropertyValues("steadlock.annotation.enabled=false")
                .run(
                        context -> {
                            var client = context.getBean(SteadlockClient.class);
                            assertThat(
                                            context.getBean(Shop.class)
                                                    .fair(() -> client.lock("fair").isLocked()))
                                    .isFalse();
                        });
    }

    @Test
    void each_kind_acquires_its_lock() {
        with(
                (shop, client) -> {
                    assertThat(shop.fair(() -> client.lock("fair").isLocked())).isTrue();
                    assertThat(shop.mutex(() -> client.mutex("mutex").isLocked())).isTrue();
                    assertThat(shop.read(() -> client.readWriteLock("rw").readLock().isLocked()))
                            .isTrue();
                    assertThat(shop.write(() -> client.readWriteLock("rw").writeLock().isLocked()))
                            .isTrue();
                    assertThat(
                                    shop.semaphore(
                                            () -> client.semaphore("permits", 3).available() == 2))
                            .isTrue();
                    assertThat(client.semaphore("permits", 3).available()).isEqualTo(3);
                });
    }

    @Test
    void several_names_are_one_composite_lock_without_duplicates() {
        with(
                (shop, client) -> {
                    boolean both =
                            shop.several(
                                    List.of("a", "b", "a"),
                                    () ->
                                            client.lock("item:a").isLocked()
                                                    && client.lock("item:b").isLocked());
                    assertThat(both).isTrue();
                    assertThat(client.lock("item:a").isLocked()).isFalse();
                    assertThat(client.lock("item:b").isLocked()).isFalse();
                });
    }

    @Test
    void the_annotation_works_on_an_interface_and_in_composed_annotations() {
        with(
                (shop, client) -> {
                    assertThat(shop.byInterface(() -> client.lock("interface").isLocked()))
                            .isTrue();
                    assertThat(shop.composed(() -> client.lock("composed").isLocked())).isTrue();
                });
    }

    @Test
    void a_busy_lock_throws_a_timeout_with_its_holder() throws Exception {
        with(
                (shop, client) ->
                        busy(
                                client,
                                "voucher:7",
                                () ->
                                        assertThatThrownBy(() -> shop.hurried(7))
                                                .isInstanceOfSatisfying(
                                                        LockTimeoutException.class,
                                                        busy ->
                                                                assertThat(busy.getHolder())
                                                                        .isNotNull())));
    }

    @Test
    void an_interrupt_of_a_wait_is_unchecked_unless_the_method_declares_it() {
        with(
                (shop, client) ->
                        busy(
                                client,
                                "waiting",
                                () -> {
                                    assertThat(interrupted(() -> shop.waiting()))
                                            .isInstanceOf(LockInterruptedException.class)
                                            .hasMessageContaining("\"waiting\"")
                                            .hasSuppressedException(
                                                    new IllegalStateException("interrupt kept"));
                                    assertThat(interrupted(() -> shop.interruptible()))
                                            .isInstanceOf(InterruptedException.class)
                                            .hasNoSuppressedExceptions();
                                }));
    }

    @Test
    void a_loss_in_the_body_is_thrown_if_the_body_succeeds() {
        with(
                (shop, client) ->
                        assertThatThrownBy(() -> shop.brief(AnnotationTest::awaitLoss))
                                .isInstanceOf(LockLostException.class));
    }

    @Test
    void a_loss_in_the_body_is_suppressed_by_an_exception_of_the_body() {
        with(
                (shop, client) ->
                        assertThatThrownBy(
                                        () ->
                                                shop.brief(
                                                        () -> {
                                                            awaitLoss();
                                                            throw new IllegalStateException("mine");
                                                        }))
                                .hasMessage("mine")
                                .satisfies(
                                        mine ->
                                                assertThat(mine.getSuppressed())
                                                        .hasOnlyElementsOfType(
                                                                LockLostException.class)
                                                        .hasSize(1)));
    }

    @Test
    void the_lease_of_the_method_has_its_token() {
        with(
                (shop, client) -> {
                    long first = shop.<Long>buy(7, () -> CurrentLease.get().getToken());
                    long second = shop.<Long>buy(7, () -> CurrentLease.get().getToken());
                    assertThat(second).isGreaterThan(first);
                    assertThat(CurrentLease.find()).isEmpty();
                    assertThatThrownBy(CurrentLease::get).isInstanceOf(IllegalStateException.class);
                });
    }

    @Test
    void the_reason_is_known_while_the_method_holds_its_lock() {
        Programs.program(Config.class)
                .run(
                        context -> {
                            var reasons = context.getBean(LockReasons.class);
                            var shop = context.getBean(Shop.class);
                            var client = context.getBean(SteadlockClient.class);
                            assertThat(shop.fair(() -> reasons.of(client, "fair").orElse("none")))
                                    .isEqualTo("one after the other");
                            assertThat(reasons.of(client, "fair")).isEmpty();
                        });
    }

    @Test
    void the_wait_of_the_properties_is_the_default_of_methods() {
        Programs.program(Config.class)
                .withPropertyValues("steadlock.wait=0s")
                .run(
                        context -> {
                            var client = context.getBean(SteadlockClient.class);
                            var shop = context.getBean(Shop.class);
                            busy(
                                    client,
                                    "waiting",
                                    () ->
                                            assertThatThrownBy(shop::waiting)
                                                    .isInstanceOf(LockTimeoutException.class));
                        });
    }

    /** Waits until the lease of the method is lost. */
    static void awaitLoss() {
        var lost = new CountDownLatch(1);
        onLoss(lost);
        Programs.await(lost);
    }

    /** Counts down when the lease of the method is lost. */
    static void onLoss(CountDownLatch lost) {
        CurrentLease.get().onLost(reason -> lost.countDown());
    }

    /** Runs {@code action} while another owner holds the lock. */
    static void busy(SteadlockClient client, String name, Action action) throws Exception {
        var lease = client.lock(name).lockAsync().toCompletableFuture().get();
        try {
            action.run();
        } finally {
            lease.release();
        }
    }

    /**
     * Returns the exception that {@code action} throws on an interrupted thread. The exception gets
     * a suppressed one if the thread's interrupt status is still set afterwards.
     */
    private static Throwable interrupted(Action action) throws Exception {
        var thrown = new CompletableFuture<Throwable>();
        var thread =
                new Thread(
                        () -> {
                            Thread.currentThread().interrupt();
                            try {
                                action.run();
                                thrown.complete(null);
                            } catch (Throwable failure) {
                                if (Thread.currentThread().isInterrupted()) {
                                    failure.addSuppressed(
                                            new IllegalStateException("interrupt kept"));
                                }
                                thrown.complete(failure);
                            }
                        });
        thread.start();
        return thrown.get();
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

    interface Action {
        void run() throws Exception;
    }

    @Retention(RetentionPolicy.RUNTIME)
    @DistributedLock(name = "")
    @interface Exclusively {
        @AliasFor(annotation = DistributedLock.class, attribute = "name")
        String value();
    }

    interface ByInterface {
        @DistributedLock(name = "'interface'")
        <T> T byInterface(Supplier<T> body);
    }

    static class Shop implements ByInterface {
        @DistributedLock(name = "'voucher:' + #userId")
        <T> T buy(long userId, Supplier<T> body) {
            return body.get();
        }

        @DistributedLock(name = "'voucher:' + #userId", waitTime = "50ms")
        public void hurried(long userId) {}

        @DistributedLock(name = "'failing'")
        public void failing() throws IOException {
            throw new IOException("no");
        }

        @DistributedLock(name = "'fair'", kind = LockKind.FAIR, reason = "one after the other")
        public <T> T fair(Supplier<T> body) {
            return body.get();
        }

        @DistributedLock(name = "'mutex'", kind = LockKind.MUTEX)
        public boolean mutex(Supplier<Boolean> body) {
            return body.get();
        }

        @DistributedLock(name = "'rw'", kind = LockKind.READ)
        public boolean read(Supplier<Boolean> body) {
            return body.get();
        }

        @DistributedLock(name = "'rw'", kind = LockKind.WRITE)
        public boolean write(Supplier<Boolean> body) {
            return body.get();
        }

        @DistributedLock(name = "'permits'", kind = LockKind.SEMAPHORE, limit = 3)
        public boolean semaphore(Supplier<Boolean> body) {
            return body.get();
        }

        @DistributedLock(name = "#items.!['item:' + #this]")
        public boolean several(List<String> items, Supplier<Boolean> body) {
            return body.get();
        }

        @DistributedLock(name = "'brief'", lease = "500ms")
        public void brief(Runnable body) {
            body.run();
        }

        @DistributedLock(name = "'waiting'")
        public void waiting() {}

        @DistributedLock(name = "'waiting'")
        public void interruptible() throws InterruptedException {}

        @Override
        public <T> T byInterface(Supplier<T> body) {
            return body.get();
        }

        @Exclusively("'composed'")
        public boolean composed(Supplier<Boolean> body) {
            return body.get();
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

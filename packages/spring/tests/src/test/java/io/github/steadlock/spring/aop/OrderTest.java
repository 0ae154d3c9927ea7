package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.core.Ordered;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.annotation.Propagation;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;
import org.springframework.transaction.support.TransactionTemplate;

/**
 * Tests that the lock is outside of the transaction: the next holder reads what the last one
 * committed.
 */
@ExtendWith(OutputCaptureExtension.class)
class OrderTest {
    private static final int ROUNDS = 200;

    @Test
    void the_next_holder_reads_the_committed_data() {
        assertThat(staleReads((one, onCommit) -> one.getBean(Shop.class).add(onCommit))).isZero();
    }

    @Test
    void a_lock_inside_the_transaction_lets_the_next_holder_read_stale_data() {
        assertThat(staleReads(OrderTest::addWithTheLockInside)).isEqualTo(ROUNDS);
    }

    @Test
    void a_transaction_of_the_caller_keeps_the_lock_until_it_has_ended(CapturedOutput log) {
        Adder withinTransaction =
                (one, onCommit) ->
                        one.getBean(TransactionTemplate.class)
                                .executeWithoutResult(
                                        status -> one.getBean(Shop.class).add(onCommit));
        assertThat(staleReads(withinTransaction)).isZero();
        assertThat(log.getOut())
                .containsOnlyOnce("a transaction had begun before the lock was acquired")
                .contains("Shop.add(Runnable): a transaction had begun");
    }

    @Test
    void a_rollback_of_the_callers_transaction_releases_the_lock() {
        with(
                context -> {
                    var client = context.getBean(SteadlockClient.class);
                    var held = new boolean[1];
                    context.getBean(TransactionTemplate.class)
                            .executeWithoutResult(
                                    status -> {
                                        context.getBean(Shop.class).add(() -> {});
                                        held[0] = client.lock("stock").isLocked();
                                        status.setRollbackOnly();
                                    });
                    assertThat(held[0]).isTrue();
                    assertThat(client.lock("stock").isLocked()).isFalse();
                    assertThat(numberIn(context)).isZero();
                });
    }

    @Test
    void a_method_with_its_own_transaction_releases_the_lock_after_it(
            CapturedOutput log) {
        with(
                context -> {
                    var client = context.getBean(SteadlockClient.class);
                    context.getBean(TransactionTemplate.class)
                            .executeWithoutResult(
                                    status -> {
                                        context.getBean(Shop.class).addApart();
                                        assertThat(client.lock("stock").isLocked()).isFalse();
                                        status.setRollbackOnly();
                                    });
                    assertThat(numberIn(context)).isOne();
                });
        assertThat(log.getOut()).doesNotContain("had begun before");
    }

    @Test
    void a_reentry_neither_warns_nor_keeps_the_lock(CapturedOutput log) {
        with(
                context -> {
                    var client = context.getBean(SteadlockClient.class);
                    var shop = context.getBean(Shop.class);
                    shop.addWith(() -> shop.add(() -> {}));
                    assertThat(client.lock("stock").isLocked()).isFalse();
                    assertThat(numberIn(context)).isEqualTo(2);
                });
        assertThat(log.getOut()).doesNotContain("had begun before");
    }

    @Test
    void an_order_inside_the_transaction_stops_the_start() {
        for (int order : new int[] {Ordered.LOWEST_PRECEDENCE, 7}) {
            program(Programs.server(), UUID.randomUUID().toString())
                    .withPropertyValues("steadlock.annotation.order=" + order)
                    .withBean("early", Early.class)
                    .run(
                            context -> {
                                if (order == 7) {
                                    assertThat(context).hasNotFailed();
                                } else {
                                    assertThat(context)
                                            .getFailure()
                                            .isInstanceOf(InvalidAnnotationException.class)
                                            .hasMessageContaining(
                                                    "set steadlock.annotation.order to less than");
                                }
                            });
        }
    }

    /**
     * Returns how many times an instance that acquires the lock right after another one reads an
     * old number. In each round, the commit of the first instance waits until the second has found
     * the lock held or has read the number.
     */
    private static int staleReads(Adder adder) {
        String server = Programs.server();
        String database = UUID.randomUUID().toString();
        int[] stale = new int[1];
        program(server, database)
                .run(
                        one ->
                                program(server, database)
                                        .run(
                                                two -> {
                                                    for (int round = 1; round <= ROUNDS; round++) {
                                                        stale[0] +=
                                                                round(adder, one, two) == round
                                                                        ? 0
                                                                        : 1;
                                                    }
                                                    assertThat(numberIn(one)).isEqualTo(ROUNDS);
                                                }));
        return stale[0];
    }

    /** Returns the number that the second instance reads. */
    private static int round(Adder adder, ApplicationContext one, ApplicationContext two)
            throws Exception {
        var atCommit = new CountDownLatch(1);
        var proceed = new CountDownLatch(1);
        var adding =
                CompletableFuture.runAsync(
                        () ->
                                adder.add(
                                        one,
                                        () -> {
                                            atCommit.countDown();
                                            Programs.await(proceed);
                                        }));
        Programs.await(atCommit);
        var lock = two.getBean(SteadlockClient.class).lock("stock");
        boolean isFree = lock.tryLock();
        if (!isFree) {
            proceed.countDown();
            lock.lockInterruptibly();
        }
        int read = numberIn(two);
        lock.unlock();
        proceed.countDown();
        adding.get(20, TimeUnit.SECONDS);
        return read;
    }

    /**
     * Adds in the wrong but common order: the lock is released at the end of the body, and the
     * transaction commits only afterwards.
     */
    private static void addWithTheLockInside(ApplicationContext context, Runnable onCommit) {
        var lock = context.getBean(SteadlockClient.class).lock("stock");
        context.getBean(TransactionTemplate.class)
                .executeWithoutResult(
                        status -> {
                            lock.lock();
                            try {
                                increment(context.getBean(JdbcTemplate.class), onCommit);
                            } finally {
                                lock.unlock();
                            }
                        });
    }

    private static void increment(JdbcTemplate jdbc, Runnable onCommit) {
        jdbc.update("UPDATE stock SET number = number + 1");
        TransactionSynchronizationManager.registerSynchronization(
                new TransactionSynchronization() {
                    @Override
                    public void beforeCommit(boolean readOnly) {
                        onCommit.run();
                    }
                });
    }

    static int numberIn(ApplicationContext context) {
        return context.getBean(JdbcTemplate.class)
                .queryForObject("SELECT number FROM stock", Integer.class);
    }

    private static void with(Body body) {
        program(Programs.server(), UUID.randomUUID().toString()).run(body::run);
    }

    private static ApplicationContextRunner program(String server, String database) {
        return Programs.on(server, Config.class).withPropertyValues("test.database=" + database);
    }

    interface Adder {
        void add(ApplicationContext context, Runnable onCommit);
    }

    interface Body {
        void run(ApplicationContext context) throws Exception;
    }

    static class Shop {
        private final JdbcTemplate jdbc;

        Shop(JdbcTemplate jdbc) {
            this.jdbc = jdbc;
        }

        @DistributedLock(name = "'stock'")
        @Transactional
        public void add(Runnable onCommit) {
            increment(jdbc, onCommit);
        }

        @DistributedLock(name = "'stock'")
        @Transactional
        public void addWith(Runnable inner) {
            increment(jdbc, () -> {});
            inner.run();
        }

        @DistributedLock(name = "'stock'")
        @Transactional(propagation = Propagation.REQUIRES_NEW)
        public void addApart() {
            increment(jdbc, () -> {});
        }
    }

    static class Early {
        @DistributedLock(name = "'early'")
        public void run() {}
    }

    @Configuration(proxyBeanMethods = false)
    @Import(Databases.Jdbc.class)
    static class Config {
        @Bean
        TransactionTemplate transaction(
                org.springframework.transaction.PlatformTransactionManager manager) {
            return new TransactionTemplate(manager);
        }

        @Bean
        Shop shop(JdbcTemplate jdbc) {
            return new Shop(jdbc);
        }
    }
}

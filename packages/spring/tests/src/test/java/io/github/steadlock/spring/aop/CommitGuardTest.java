package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.Lease;
import io.github.steadlock.LockLostException;
import io.github.steadlock.LockOptions;
import io.github.steadlock.LostReason;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.CommitGuard;
import io.github.steadlock.spring.CommitRefusedException;
import io.github.steadlock.spring.DistributedLock;
import java.time.Duration;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.support.TransactionTemplate;

/** Tests that a transaction is rolled back if its lease is not valid before the commit. */
class CommitGuardTest {
    @Test
    void a_pause_longer_than_the_lease_rolls_the_transaction_back() {
        with(
                context -> {
                    assertThatThrownBy(
                                    () ->
                                            context.getBean(Shop.class)
                                                    .add(AnnotationTest::awaitLoss))
                            .isInstanceOfSatisfying(
                                    CommitRefusedException.class,
                                    refused -> {
                                        assertThat(refused.getLockName()).isEqualTo("stock");
                                        assertThat(refused.getReason())
                                                .isEqualTo(LostReason.EXPIRED);
                                        assertThat(refused).hasMessageContaining("\"stock\"");
                                        assertThat(refused.getSuppressed())
                                                .hasOnlyElementsOfType(LockLostException.class);
                                    });
                    assertThat(OrderTest.numberIn(context)).isZero();
                    context.getBean(Shop.class).addRenewed();
                    assertThat(OrderTest.numberIn(context)).isOne();
                });
    }

    @Test
    void a_transaction_within_a_locked_method_is_rolled_back() {
        with(
                context -> {
                    assertThatThrownBy(
                                    () ->
                                            context.getBean(Shop.class)
                                                    .addInside(AnnotationTest::awaitLoss))
                            .isInstanceOf(CommitRefusedException.class);
                    assertThat(OrderTest.numberIn(context)).isZero();
                });
    }

    @Test
    void a_transaction_around_a_locked_method_is_rolled_back() {
        with(
                context -> {
                    var transaction = context.getBean(TransactionTemplate.class);
                    var lost = new CountDownLatch(1);
                    assertThatThrownBy(
                                    () ->
                                            transaction.executeWithoutResult(
                                                    status -> {
                                                        context.getBean(Shop.class)
                                                                .add(
                                                                        () ->
                                                                                AnnotationTest
                                                                                        .onLoss(
                                                                                                lost));
                                                        Programs.await(lost);
                                                    }))
                            .isInstanceOf(CommitRefusedException.class);
                    assertThat(OrderTest.numberIn(context)).isZero();
                });
    }

    @Test
    void a_caught_loss_still_rolls_the_transaction_back() {
        with(
                context -> {
                    var shop = context.getBean(Shop.class);
                    var transaction = context.getBean(TransactionTemplate.class);
                    assertThatThrownBy(
                                    () ->
                                            transaction.executeWithoutResult(
                                                    status -> addAndCatch(context, shop)))
                            .isInstanceOf(CommitRefusedException.class)
                            .hasMessageContaining("\"stock\"");
                    assertThat(OrderTest.numberIn(context)).isZero();
                    shop.addRenewed();
                    assertThat(OrderTest.numberIn(context)).isOne();
                });
    }

    private static void addAndCatch(ApplicationContext context, Shop shop) {
        increment(context);
        assertThatThrownBy(() -> shop.add(AnnotationTest::awaitLoss))
                .isInstanceOf(LockLostException.class);
        shop.addRenewed(); // Acquires anew: a lost lease cannot be re-entered.
    }

    @Test
    void requireValid_accepts_a_lease_of_the_program() throws Exception {
        with(
                context -> {
                    var client = context.getBean(SteadlockClient.class);
                    var brief = LockOptions.DEFAULT.withLease(Duration.ofSeconds(1));
                    var transaction = context.getBean(TransactionTemplate.class);
                    // The first use of the database takes long, so it comes before the lease.
                    assertThat(OrderTest.numberIn(context)).isZero();
                    Lease lease = client.lock("own").lockAsync(brief).toCompletableFuture().get();
                    assertThatThrownBy(
                                    () ->
                                            transaction.executeWithoutResult(
                                                    status -> {
                                                        CommitGuard.requireValid(lease);
                                                        increment(context);
                                                        var lost = new CountDownLatch(1);
                                                        lease.onLost(reason -> lost.countDown());
                                                        Programs.await(lost);
                                                    }))
                            .isInstanceOf(CommitRefusedException.class)
                            .hasMessageContaining("\"own\"");
                    assertThat(OrderTest.numberIn(context)).isZero();
                    assertThatThrownBy(() -> CommitGuard.requireValid(lease))
                            .isInstanceOf(IllegalStateException.class)
                            .hasMessageContaining("no transaction is active");
                });
    }

    @Test
    void without_the_guard_the_transaction_commits_and_the_loss_is_thrown() {
        program()
                .withPropertyValues("steadlock.annotation.commit-guard=false")
                .run(
                        context -> {
                            assertThatThrownBy(
                                            () ->
                                                    context.getBean(Shop.class)
                                                            .add(AnnotationTest::awaitLoss))
                                    .isInstanceOf(LockLostException.class);
                            assertThat(OrderTest.numberIn(context)).isOne();
                        });
    }

    private static void increment(ApplicationContext context) {
        context.getBean(JdbcTemplate.class).update("UPDATE stock SET number = number + 1");
    }

    private static void with(OrderTest.Body body) {
        program().run(body::run);
    }

    private static ApplicationContextRunner program() {
        return Programs.program(Config.class)
                .withPropertyValues("test.database=" + UUID.randomUUID());
    }

    static class Shop {
        private final JdbcTemplate jdbc;
        private final TransactionTemplate transaction;

        Shop(JdbcTemplate jdbc, TransactionTemplate transaction) {
            this.jdbc = jdbc;
            this.transaction = transaction;
        }

        @DistributedLock(name = "'stock'", lease = "500ms")
        @Transactional
        public void add(Runnable pause) {
            jdbc.update("UPDATE stock SET number = number + 1");
            pause.run();
        }

        @DistributedLock(name = "'stock'")
        @Transactional
        public void addRenewed() {
            jdbc.update("UPDATE stock SET number = number + 1");
        }

        @DistributedLock(name = "'stock'", lease = "500ms")
        public void addInside(Runnable pause) {
            transaction.executeWithoutResult(
                    status -> {
                        jdbc.update("UPDATE stock SET number = number + 1");
                        pause.run();
                    });
        }
    }

    @Configuration(proxyBeanMethods = false)
    @Import(Databases.Jdbc.class)
    static class Config {
        @Bean
        TransactionTemplate transaction(PlatformTransactionManager manager) {
            return new TransactionTemplate(manager);
        }

        @Bean
        Shop shop(JdbcTemplate jdbc, TransactionTemplate transaction) {
            return new Shop(jdbc, transaction);
        }
    }
}

package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.CommitGuard;
import io.github.steadlock.spring.CommitRefusedException;
import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import java.time.Duration;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.r2dbc.core.DatabaseClient;
import org.springframework.transaction.ReactiveTransactionManager;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.reactive.TransactionalOperator;
import reactor.core.publisher.Mono;

/** Tests the commit guard with reactive transactions. */
class ReactiveGuardTest {
    private static final Duration LONG = Duration.ofSeconds(20);

    @Test
    void a_transaction_whose_lease_is_valid_commits() {
        with(
                context -> {
                    Mono<Integer> add = context.getBean(Shop.class).add(Mono.empty());
                    assertThat(add.block(LONG)).isEqualTo(1);
                    assertThat(add.block(LONG)).isEqualTo(1);
                    assertThat(numberIn(context)).isEqualTo(2);
                });
    }

    @Test
    void a_transaction_whose_lease_was_released_before_the_commit_is_rolled_back() {
        with(
                context -> {
                    assertThatThrownBy(() -> context.getBean(Shop.class).add(release()).block(LONG))
                            .isInstanceOf(CommitRefusedException.class)
                            .hasMessageContaining("\"stock\"");
                    assertThat(numberIn(context)).isZero();
                });
    }

    @Test
    void a_transaction_of_another_bean_within_the_lock_is_rolled_back() {
        with(
                context -> {
                    assertThatThrownBy(
                                    () -> context.getBean(Facade.class).add(release()).block(LONG))
                            .isInstanceOf(CommitRefusedException.class);
                    assertThat(numberIn(context)).isZero();
                });
    }

    @Test
    void a_transactional_operator_can_require_the_lease() {
        with(
                context -> {
                    assertThatThrownBy(
                                    () ->
                                            context.getBean(Shop.class)
                                                    .addByOperator(release())
                                                    .block(LONG))
                            .isInstanceOf(CommitRefusedException.class);
                    assertThat(numberIn(context)).isZero();
                    context.getBean(Shop.class).addByOperator(Mono.empty()).block(LONG);
                    assertThat(numberIn(context)).isOne();
                });
    }

    @Test
    void a_transaction_of_the_caller_keeps_the_lock_until_it_has_ended() {
        with(
                context -> {
                    var client = context.getBean(SteadlockClient.class);
                    boolean isHeld =
                            context.getBean(TransactionalOperator.class)
                                    .transactional(
                                            context.getBean(Shop.class)
                                                    .add(Mono.empty())
                                                    .map(rows -> client.lock("stock").isLocked()))
                                    .block(LONG);
                    assertThat(isHeld).isTrue();
                    assertThat(client.lock("stock").isLocked()).isFalse();
                    assertThat(numberIn(context)).isOne();
                });
    }

    @Test
    void a_transaction_of_the_caller_is_rolled_back() {
        with(
                context -> {
                    var operator = context.getBean(TransactionalOperator.class);
                    Mono<Integer> add = context.getBean(Shop.class).addAndRelease();
                    assertThatThrownBy(() -> operator.transactional(add).block(LONG)).isNotNull();
                    assertThat(numberIn(context)).isZero();
                });
    }

    /** Releases the lease, so that it is not valid any more, as if it had been lost. */
    private static Mono<Void> release() {
        return CurrentLease.reactive()
                .flatMap(lease -> Mono.fromCompletionStage(lease::releaseAsync))
                .then();
    }

    private static int numberIn(ApplicationContext context) {
        return context.getBean(DatabaseClient.class)
                .sql("SELECT number FROM stock")
                .map(row -> row.get(0, Integer.class))
                .one()
                .block(LONG);
    }

    private static void with(OrderTest.Body body) {
        program().run(body::run);
    }

    private static ApplicationContextRunner program() {
        return Programs.program(Config.class)
                .withPropertyValues("test.database=" + UUID.randomUUID());
    }

    static class Shop {
        private final DatabaseClient database;
        private final TransactionalOperator operator;

        Shop(DatabaseClient database, TransactionalOperator operator) {
            this.database = database;
            this.operator = operator;
        }

        @DistributedLock(name = "'stock'")
        @Transactional
        public Mono<Integer> add(Mono<Void> pause) {
            return increment().delayUntil(rows -> pause);
        }

        @Transactional
        public Mono<Integer> addWithoutLock(Mono<Void> pause) {
            return increment().delayUntil(rows -> pause);
        }

        @DistributedLock(name = "'stock'")
        public Mono<Integer> addByOperator(Mono<Void> pause) {
            return CurrentLease.reactive()
                    .flatMap(CommitGuard::requireValidReactive)
                    .then(increment())
                    .delayUntil(rows -> pause)
                    .as(operator::transactional);
        }

        @DistributedLock(name = "'stock'")
        public Mono<Integer> addAndRelease() {
            return increment().delayUntil(rows -> release());
        }

        private Mono<Integer> increment() {
            return database.sql("UPDATE stock SET number = number + 1")
                    .fetch()
                    .rowsUpdated()
                    .map(Long::intValue);
        }
    }

    static class Facade {
        private final Shop shop;

        Facade(Shop shop) {
            this.shop = shop;
        }

        @DistributedLock(name = "'facade'")
        public Mono<Integer> add(Mono<Void> pause) {
            return shop.addWithoutLock(pause);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @Import(Databases.R2dbc.class)
    static class Config {
        @Bean
        TransactionalOperator operator(ReactiveTransactionManager manager) {
            return TransactionalOperator.create(manager);
        }

        @Bean
        Shop shop(DatabaseClient database, TransactionalOperator operator) {
            return new Shop(database, operator);
        }

        @Bean
        Facade facade(Shop shop) {
            return new Facade(shop);
        }
    }
}

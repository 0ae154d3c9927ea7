package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.LockTimeoutException;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.SteadlockException;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.OnBusy;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;
import java.util.function.Supplier;
import org.junit.jupiter.api.Test;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/** Tests the results of calls while another owner holds their lock. */
class BusyTest {
    @Test
    void a_skipped_call_returns_an_empty_result() {
        whileBusy(
                shop -> {
                    shop.skipVoid();
                    assertThat(shop.skip()).isNull();
                    assertThat(shop.skipOptional()).isEmpty();
                    assertThat(shop.skipOptionalInt()).isEmpty();
                    assertThat(shop.skipOptionalLong()).isEmpty();
                    assertThat(shop.skipOptionalDouble()).isEmpty();
                    assertThat(shop.skipStage()).isCompletedWithValue(null);
                    assertThat(shop.skipMono().blockOptional()).isEmpty();
                    assertThat(shop.skipFlux().collectList().block()).isEmpty();
                });
    }

    @Test
    void the_busy_handler_makes_the_result() {
        whileBusy(
                shop -> {
                    assertThat(shop.handled(7)).isEqualTo("busy 7");
                    assertThat(shop.handledWithCause(7)).isEqualTo("busy 7: LockTimeoutException");
                    assertThat(shop.handledMono(7).block()).isEqualTo("busy 7");
                    assertThat(shop.handledByTwo(7)).isEqualTo("busy 7: LockTimeoutException");
                });
    }

    @Test
    void an_exception_of_the_busy_handler_is_thrown() {
        whileBusy(
                shop ->
                        assertThatThrownBy(shop::handledByThrowing)
                                .isInstanceOf(IllegalStateException.class)
                                .hasMessage("come later"));
    }

    @Test
    void the_exception_is_delivered_by_the_result_type() {
        whileBusy(
                shop -> {
                    assertThatThrownBy(shop::thrown).isInstanceOf(LockTimeoutException.class);
                    assertThat(shop.thrownStage())
                            .isCompletedExceptionally()
                            .failsWithin(java.time.Duration.ZERO)
                            .withThrowableThat()
                            .withCauseInstanceOf(LockTimeoutException.class);
                    assertThatThrownBy(() -> shop.thrownMono().block())
                            .isInstanceOf(LockTimeoutException.class);
                });
    }

    @Test
    void a_timeout_inside_the_body_is_not_handled_as_busy() {
        whileBusy(
                shop -> {
                    assertThatThrownBy(() -> shop.skipOther(shop::thrown))
                            .isInstanceOf(LockTimeoutException.class);
                    assertThatThrownBy(() -> shop.skipOtherMono(shop.thrownMono()).block())
                            .isInstanceOf(LockTimeoutException.class);
                });
    }

    private static void whileBusy(java.util.function.Consumer<Shop> test) {
        Programs.program(Config.class)
                .run(
                        context ->
                                AnnotationTest.busy(
                                        context.getBean(SteadlockClient.class),
                                        "busy",
                                        () -> test.accept(context.getBean(Shop.class))));
    }

    static class Shop {
        @DistributedLock(name = "'busy'", waitTime = "0s")
        public String thrown() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s")
        public CompletableFuture<String> thrownStage() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s")
        public Mono<String> thrownMono() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public void skipVoid() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "10ms", onBusy = OnBusy.SKIP)
        public String skip() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public Optional<String> skipOptional() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public OptionalInt skipOptionalInt() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public OptionalLong skipOptionalLong() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public OptionalDouble skipOptionalDouble() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public CompletableFuture<String> skipStage() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public Mono<String> skipMono() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public Flux<String> skipFlux() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'other'", onBusy = OnBusy.SKIP)
        public String skipOther(Supplier<String> body) {
            return body.get();
        }

        @DistributedLock(name = "'other'", onBusy = OnBusy.SKIP)
        public Mono<String> skipOtherMono(Mono<String> body) {
            return body;
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", busyHandler = "busy")
        public String handled(long id) {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", busyHandler = "busyWithCause")
        public String handledWithCause(long id) {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", busyHandler = "busyMono")
        public Mono<String> handledMono(long id) {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", busyHandler = "throwing")
        public String handledByThrowing() {
            throw new AssertionError("it ran");
        }

        @DistributedLock(name = "'busy'", waitTime = "0s", busyHandler = "busyTwice")
        public String handledByTwo(long id) {
            throw new AssertionError("it ran");
        }

        private String busyTwice(long id) {
            throw new AssertionError("the handler with more parameters has precedence");
        }

        private String busyTwice(long id, SteadlockException why) {
            return busyWithCause(id, why);
        }

        private String busy(long id) {
            return "busy " + id;
        }

        private String busyWithCause(long id, SteadlockException why) {
            return "busy " + id + ": " + why.getClass().getSimpleName();
        }

        private Mono<String> busyMono(long id) {
            return Mono.just("busy " + id);
        }

        private String throwing() {
            throw new IllegalStateException("come later");
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

package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.aop.OtherAnnotationsTableTest.Row;
import io.github.steadlock.spring.aop.OtherAnnotationsTableTest.Shop;
import io.github.steadlock.spring.aop.OtherAnnotationsTableTest.Work;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.event.EventListener;
import org.springframework.resilience.annotation.EnableResilientMethods;
import org.springframework.resilience.annotation.Retryable;
import org.springframework.resilience.retry.MethodRetryEvent;
import org.springframework.transaction.annotation.Transactional;
import reactor.core.publisher.Mono;

/** The rows of the table for the retries of Spring Framework 7. */
final class FrameworkRetries {
    private FrameworkRetries() {}

    static List<Row> rows() {
        return List.of(
                Row.of("`@Retryable` of Spring Framework 7 (Boot 4)", Plain.class, Plain::sell)
                        .with(Config.class),
                Row.of(
                                "the same with `@Transactional` (Boot 4)",
                                Transacted.class,
                                Transacted::sell)
                        .with(Config.class)
                        .withDatabase(),
                Row.of(
                                "the same, of a method that gives a `Mono` (Boot 4)",
                                Reactive.class,
                                bean -> bean.sell().block())
                        .with(Config.class),
                Row.of(
                                "the same, of a method that gives a `CompletableFuture` (Boot 4)",
                                Stage.class,
                                bean -> OtherAnnotationsTableTest.join(bean.sell()))
                        .with(Config.class));
    }

    @Configuration(proxyBeanMethods = false)
    @EnableResilientMethods
    static class Config {
        @Bean
        static Gap gap(Work work) {
            return new Gap(work);
        }
    }

    /**
     * Runs between two attempts. Ignores the event after the last failure, because no attempt
     * follows.
     */
    record Gap(Work work) {
        @EventListener
        public void afterAttempt(MethodRetryEvent event) {
            if (!event.isRetryAborted()) {
                work.between();
            }
        }
    }

    static class Plain extends Shop {
        Plain(Work work) {
            super(work);
        }

        @Retryable(maxRetries = 1, delay = 1)
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public String sell() {
            return work.run();
        }
    }

    static class Transacted extends Shop {
        Transacted(Work work) {
            super(work);
        }

        @Retryable(maxRetries = 1, delay = 1)
        @DistributedLock(name = "'stock'", waitTime = "0s")
        @Transactional
        public String sell() {
            return work.run();
        }
    }

    static class Reactive extends Shop {
        Reactive(Work work) {
            super(work);
        }

        @Retryable(maxRetries = 1, delay = 1)
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public Mono<String> sell() {
            return work.mono();
        }
    }

    static class Stage extends Shop {
        Stage(Work work) {
            super(work);
        }

        @Retryable(maxRetries = 1, delay = 1)
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public CompletableFuture<String> sell() {
            try {
                return CompletableFuture.completedFuture(work.run());
            } catch (RuntimeException failure) {
                return CompletableFuture.failedFuture(failure);
            }
        }
    }
}

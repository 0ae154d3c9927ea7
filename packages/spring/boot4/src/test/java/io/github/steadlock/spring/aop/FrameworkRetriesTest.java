package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.aot.hint.predicate.RuntimeHintsPredicates;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.core.Ordered;
import org.springframework.resilience.annotation.EnableResilientMethods;
import org.springframework.resilience.annotation.RetryAnnotationBeanPostProcessor;
import org.springframework.resilience.annotation.Retryable;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.transaction.annotation.Transactional;

/** Tests that the retries of Spring Framework 7 are outside of the lock. */
@ExtendWith(OutputCaptureExtension.class)
class FrameworkRetriesTest {
    @Test
    void retries_are_outside_of_the_lock_and_inside_of_async(CapturedOutput log) {
        for (Class<?> retries : List.of(Retries.class, LastRetries.class)) {
            Programs.program(retries, AsyncConfig.class, Databases.Jdbc.class)
                    .withPropertyValues("test.database=nesting")
                    .withBean(Later.class)
                    .run(
                            context ->
                                    assertThat(
                                                    AnnotationConflictsTest.advice(
                                                                    context.getBean(Later.class))
                                                            .stream()
                                                            .filter(
                                                                    name ->
                                                                            !name.startsWith(
                                                                                    "AnnotationAsync"))
                                                            .toList())
                                            .as(retries.getSimpleName())
                                            .containsExactly(
                                                    "RetryAnnotationInterceptor",
                                                    "DistributedLockInterceptor",
                                                    "TransactionInterceptor"));
        }
        assertThat(log.getOut()).doesNotContain("@Retryable");
    }

    @Test
    void retries_inside_of_the_lock_cause_a_warning(CapturedOutput log) {
        Programs.program(FirstRetries.class)
                .withBean(Retried.class)
                .withPropertyValues("steadlock.annotation.retry=whole-call")
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(log.getOut()).doesNotContain("@Retryable");
        Programs.program(FirstRetries.class)
                .withBean(Retried.class)
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(log.getOut())
                .containsOnlyOnce(
                        "Retried.run() which is @Retryable: the retry is inside of the lock");
    }

    @Test
    void whole_call_with_framework_retries_stops_the_start() {
        Programs.program(Retries.class)
                .withBean(Retried.class)
                .withPropertyValues("steadlock.annotation.retry=whole-call")
                .run(
                        context ->
                                assertThat(context)
                                        .getFailure()
                                        .isInstanceOf(InvalidAnnotationException.class)
                                        .hasMessageContaining("Retried.run() which is @Retryable")
                                        .hasMessageContaining(
                                                "Spring Framework's retry has no order"));
    }

    @Test
    void the_annotation_is_accepted_if_framework_retries_are_off() {
        Programs.program()
                .withBean(Retried.class)
                .withPropertyValues("steadlock.annotation.retry=whole-call")
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void framework_retries_have_hints() {
        assertThat(
                        RuntimeHintsPredicates.reflection()
                                .onType(RetryAnnotationBeanPostProcessor.class))
                .accepts(HintsTest.hintsOf(HintsTest.Config.class));
    }

    @Test
    void circular_beans_get_one_proxy_with_lock_and_retries() {
        for (List<Class<?>> order :
                List.<List<Class<?>>>of(
                        List.of(One.class, Two.class), List.of(Two.class, One.class))) {
            Programs.program(Retries.class)
                    .withAllowCircularReferences(true)
                    .withBean(order.get(0))
                    .withBean(order.get(1))
                    .run(
                            context -> {
                                One injected = context.getBean(Two.class).one;
                                assertThat(injected).isSameAs(context.getBean(One.class));
                                assertThat(AnnotationConflictsTest.advice(injected))
                                        .containsExactly(
                                                "RetryAnnotationInterceptor",
                                                "DistributedLockInterceptor");
                            });
        }
    }

    @Test
    void a_lazy_reference_is_locked_and_retried() {
        Programs.program(Retries.class)
                .withBean(Self.class)
                .run(context -> assertThat(context.getBean(Self.class).throughProxy()).isTrue());
    }

    static class Retried {
        @Retryable
        @DistributedLock(name = "'a'")
        public void run() {}
    }

    static class Later {
        @Async
        @Retryable
        @DistributedLock(name = "'a'")
        @Transactional
        public CompletableFuture<String> run() {
            return CompletableFuture.completedFuture("");
        }
    }

    static class One {
        @Autowired Two two;

        @Retryable
        @DistributedLock(name = "'a'")
        public void run() {}
    }

    static class Two {
        @Autowired One one;
    }

    static class Self {
        private final Self self;

        Self(@Lazy Self self) {
            this.self = self;
        }

        public boolean throughProxy() {
            return self.run();
        }

        @Retryable
        @DistributedLock(name = "'a'")
        public boolean run() {
            return CurrentLease.find().isPresent();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableResilientMethods
    static class Retries {}

    @Configuration(proxyBeanMethods = false)
    @EnableResilientMethods(order = Ordered.HIGHEST_PRECEDENCE)
    static class FirstRetries {}

    @Configuration(proxyBeanMethods = false)
    @EnableResilientMethods(order = Ordered.LOWEST_PRECEDENCE)
    static class LastRetries {}

    @Configuration(proxyBeanMethods = false)
    @EnableAsync(proxyTargetClass = true)
    static class AsyncConfig {}
}

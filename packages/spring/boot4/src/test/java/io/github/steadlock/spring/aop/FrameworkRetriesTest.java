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
    void they_are_outside_of_the_lock_and_inside_of_async(CapturedOutput log) {
        for (Class<?> retries : List.of(Retries.class, LastRetries.class)) {
            Programs.program(retries, AsyncConfig.class, Databases.Jdbc.class)
                    .withPropertyValues("test.database=nesting")
                    .withBean(Later.class)
                    .run(
                            context ->
                                    assertThat(
                                                    OtherAnnotationsTest.advice(
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
    void made_before_all_other_proxies_they_are_inside_of_the_lock_which_is_a_warning(
            CapturedOutput log) {
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
    void the_lock_is_not_held_for_the_whole_call_so_that_stops_the_start() {
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
    void without_them_switched_on_the_annotation_is_no_obstacle() {
        Programs.program()
                .withBean(Retried.class)
                .withPropertyValues("steadlock.annotation.retry=whole-call")
                .run(context -> assertThat(context).hasNotFailed());
    }

    @Test
    void a_native_image_knows_them() {
        assertThat(
                        RuntimeHintsPredicates.reflection()
                                .onType(RetryAnnotationBeanPostProcessor.class))
                .accepts(HintsTest.hintsOf(HintsTest.Config.class));
    }

    @Test
    void beans_that_refer_to_each_other_get_one_proxy_with_both() {
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
                                assertThat(OtherAnnotationsTest.advice(injected))
                                        .containsExactly(
                                                "RetryAnnotationInterceptor",
                                                "DistributedLockInterceptor");
                            });
        }
    }

    @Test
    void a_lazy_reference_to_a_bean_with_both_is_locked() {
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

package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import io.github.steadlock.spring.OnBusy;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.util.Arrays;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.aop.framework.Advised;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.cache.annotation.CachePut;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.cache.annotation.Caching;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.cache.concurrent.ConcurrentMapCacheManager;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.retry.annotation.EnableRetry;
import org.springframework.retry.annotation.Recover;
import org.springframework.retry.annotation.RetryConfiguration;
import org.springframework.retry.annotation.Retryable;
import org.springframework.transaction.annotation.Transactional;

/** Tests how a program starts if a method has {@code @DistributedLock} and other annotations. */
@ExtendWith(OutputCaptureExtension.class)
class AnnotationConflictsTest {
    private static final int LOCK = Ordered.LOWEST_PRECEDENCE - 100;
    private static final String WHOLE_CALL = "steadlock.annotation.retry=whole-call";

    @Test
    void retries_are_directly_outside_of_the_lock(CapturedOutput log) {
        program(Retries.class)
                .run(context -> assertThat(orderOfRetries(context)).isEqualTo(LOCK - 1));
        program(Retries.class)
                .withPropertyValues("steadlock.annotation.order=7")
                .run(context -> assertThat(orderOfRetries(context)).isEqualTo(6));
        assertThat(log.getOut()).doesNotContain("@Retryable");
    }

    @Test
    void the_property_lets_the_whole_call_hold_the_lock(CapturedOutput log) {
        program(Retries.class)
                .withPropertyValues(WHOLE_CALL)
                .run(context -> assertThat(orderOfRetries(context)).isGreaterThan(LOCK));
        assertThat(log.getOut()).doesNotContain("@Retryable");
    }

    @Test
    void an_explicit_order_of_retries_is_kept(CapturedOutput log) {
        program(EarlyRetries.class)
                .run(context -> assertThat(orderOfRetries(context)).isEqualTo(5));
        assertThat(log.getOut()).doesNotContain("@Retryable");
        program(LateRetries.class)
                .run(context -> assertThat(orderOfRetries(context)).isEqualTo(LOCK + 50));
        assertThat(log.getOut())
                .containsOnlyOnce("Retried.run() which is @Retryable: the retry is inside of the lock")
                .contains("RetriedClass.run() which is @Retryable")
                .contains("Composed.run() which is @Retryable")
                .doesNotContain("recover()");
    }

    @Test
    void a_retry_outside_of_the_whole_call_stops_the_start() {
        program(EarlyRetries.class)
                .withPropertyValues(WHOLE_CALL)
                .run(
                        context ->
                                assertThat(context)
                                        .getFailure()
                                        .isInstanceOf(InvalidAnnotationException.class)
                                        .hasMessageContaining("which is @Retryable: " + WHOLE_CALL)
                                        .hasMessageContaining(
                                                "Let @EnableRetry have an order of more than"));
    }

    @Test
    void a_method_without_a_lock_is_retried_outside_of_its_transaction() {
        for (boolean isEnabled : new boolean[] {true, false}) {
            Programs.program(Retries.class, Databases.Jdbc.class)
                    .withBean(Unlocked.class)
                    .withPropertyValues(
                            "test.database=nesting", "steadlock.annotation.enabled=" + isEnabled)
                    .run(
                            context ->
                                    assertThat(advice(context.getBean(Unlocked.class)))
                                            .containsExactly(
                                                    "AnnotationAwareRetryOperationsInterceptor",
                                                    "TransactionInterceptor"));
        }
    }

    @Test
    void a_cache_inside_the_lock_causes_a_warning(CapturedOutput log) {
        caches(Caches.class);
        for (String name : List.of("Cached", "CachedClass", "ComposedCache", "Several", "Skipped")) {
            assertThat(log.getOut())
                    .containsOnlyOnce(name + ".run() which is @Cacheable: each call acquires the lock")
                    .contains("Say @EnableCaching(order = " + (LOCK - 1) + ")");
        }
        assertThat(log.getOut()).doesNotContain("Put.run()").doesNotContain("is cached");
    }

    @Test
    void caching_the_result_of_a_busy_lock_causes_a_warning(CapturedOutput log) {
        caches(CachesOutside.class);
        assertThat(log.getOut())
                .containsOnlyOnce(
                        "Skipped.run() whose result is cached: the cache is outside of the lock, so it keeps the null")
                .containsOnlyOnce("Put.run() whose result is cached")
                .containsOnlyOnce("it keeps the busyHandler's answer")
                .doesNotContain("Cached.run()")
                .doesNotContain("Guarded.run()")
                .doesNotContain("@Cacheable:");
    }

    @Test
    void an_ineffective_annotation_causes_no_warning(CapturedOutput log) {
        caches(Nothing.class);
        program(Nothing.class)
                .withPropertyValues(WHOLE_CALL)
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(log.getOut()).doesNotContain("@DistributedLock on");
    }

    private static void caches(Class<?> configuration) {
        Programs.program(configuration)
                .withBean(Cached.class)
                .withBean(CachedClass.class)
                .withBean(ComposedCache.class)
                .withBean(Several.class)
                .withBean(Skipped.class)
                .withBean(Guarded.class)
                .withBean(Put.class)
                .run(context -> assertThat(context).hasNotFailed());
    }

    private static ApplicationContextRunner program(Class<?> configuration) {
        return Programs.program(configuration)
                .withBean(Retried.class)
                .withBean(RetriedClass.class)
                .withBean(Composed.class);
    }

    private static int orderOfRetries(ApplicationContext context) {
        return context.getBean(RetryConfiguration.class).getOrder();
    }

    static List<String> advice(Object bean) {
        return Arrays.stream(((Advised) bean).getAdvisors())
                .map(advisor -> advisor.getAdvice().getClass().getSimpleName())
                .filter(name -> !name.startsWith("Expose") && !name.isEmpty())
                .toList();
    }

    static class Retried {
        @Retryable
        @DistributedLock(name = "'a'")
        public void run() {}
    }

    @Retryable
    static class RetriedClass {
        @DistributedLock(name = "'a'")
        public void run() {}

        @Recover
        @DistributedLock(name = "'a'")
        public void recover() {}
    }

    @Retention(RetentionPolicy.RUNTIME)
    @Retryable
    @DistributedLock(name = "'a'")
    @interface RetriedAndLocked {}

    static class Composed {
        @RetriedAndLocked
        public void run() {}
    }

    static class Unlocked {
        @Retryable
        @Transactional
        public void run() {}
    }

    static class Cached {
        @Cacheable("c")
        @DistributedLock(name = "'a'")
        public String run() {
            return "";
        }
    }

    @Cacheable("c")
    static class CachedClass {
        @DistributedLock(name = "'a'")
        public String run() {
            return "";
        }
    }

    @Retention(RetentionPolicy.RUNTIME)
    @Cacheable("c")
    @interface InTheCache {}

    static class ComposedCache {
        @InTheCache
        @DistributedLock(name = "'a'")
        public String run() {
            return "";
        }
    }

    static class Several {
        @Caching(
                cacheable = {@Cacheable("c"), @Cacheable("d")},
                put = @CachePut("e"))
        @DistributedLock(name = "'a'", busyHandler = "busy")
        public String run() {
            return "";
        }

        private String busy() {
            return "busy";
        }
    }

    static class Skipped {
        @Cacheable("c")
        @DistributedLock(name = "'a'", onBusy = OnBusy.SKIP)
        public String run() {
            return "";
        }
    }

    static class Guarded {
        @Cacheable(cacheNames = "c", unless = "#result == null")
        @DistributedLock(name = "'a'", onBusy = OnBusy.SKIP)
        public String run() {
            return "";
        }
    }

    static class Put {
        @CachePut("c")
        @DistributedLock(name = "'a'", onBusy = OnBusy.SKIP)
        public String run() {
            return "";
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableRetry
    static class Retries {}

    @Configuration(proxyBeanMethods = false)
    @EnableRetry(order = 5)
    static class EarlyRetries {}

    @Configuration(proxyBeanMethods = false)
    @EnableRetry(order = LOCK + 50)
    static class LateRetries {}

    @Configuration(proxyBeanMethods = false)
    static class Nothing {}

    @Configuration(proxyBeanMethods = false)
    @EnableCaching
    static class Caches {
        @Bean
        ConcurrentMapCacheManager caches() {
            return new ConcurrentMapCacheManager();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableCaching(order = LOCK - 1)
    static class CachesOutside {
        @Bean
        ConcurrentMapCacheManager caches() {
            return new ConcurrentMapCacheManager();
        }
    }
}

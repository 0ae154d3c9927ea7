package io.github.steadlock.spring.aop;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.Lease;
import io.github.steadlock.LockLostException;
import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.OnBusy;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Locale;
import java.util.UUID;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.aop.Advisor;
import org.springframework.aop.framework.Advised;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.cache.Cache;
import org.springframework.cache.CacheManager;
import org.springframework.cache.annotation.CacheEvict;
import org.springframework.cache.annotation.CachePut;
import org.springframework.cache.annotation.Cacheable;
import org.springframework.cache.annotation.EnableCaching;
import org.springframework.cache.concurrent.ConcurrentMapCacheManager;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.Ordered;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.retry.annotation.Backoff;
import org.springframework.retry.annotation.EnableRetry;
import org.springframework.retry.annotation.Recover;
import org.springframework.retry.annotation.Retryable;
import org.springframework.retry.backoff.Sleeper;
import org.springframework.scheduling.annotation.Async;
import org.springframework.scheduling.annotation.EnableAsync;
import org.springframework.scheduling.annotation.EnableScheduling;
import org.springframework.scheduling.annotation.Scheduled;
import org.springframework.scheduling.concurrent.ThreadPoolTaskScheduler;
import org.springframework.transaction.annotation.Transactional;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;

/**
 * Checks the table of other annotations in README.md, by calls of methods with these annotations.
 * If {@code STEADLOCK_WRITE_TABLES} is set, the test on Spring Boot 4, which has all rows, writes
 * the table.
 */
class OtherAnnotationsTableTest {
    private static final Path README = Path.of("../README.md");
    private static final String BEGIN = "<!-- other annotations -->\n";
    private static final String END = "<!-- end of other annotations -->";
    private static final String ONLY_BOOT_4 = "(Boot 4)";
    private static final String HEAD =
            "| with | from the outside in | the lock is busy | the body fails | the lease is lost in the body |\n"
                    + "|---|---|---|---|---|\n";

    @Test
    void the_table_of_other_annotations_in_the_readme_is_right() throws IOException {
        List<Row> frameworks = FrameworkRetries.rows();
        String table =
                HEAD
                        + Stream.concat(rows().stream(), frameworks.stream())
                                .map(OtherAnnotationsTableTest::observed)
                                .collect(Collectors.joining());
        String readme = Files.readString(README);
        int begin = readme.indexOf(BEGIN) + BEGIN.length();
        int end = readme.indexOf(END);
        if (!frameworks.isEmpty() && System.getenv("STEADLOCK_WRITE_TABLES") != null) {
            readme = readme.substring(0, begin) + table + readme.substring(end);
            Files.writeString(README, readme);
            end = readme.indexOf(END);
        }
        assertThat(
                        readme.substring(begin, end)
                                .lines()
                                .filter(
                                        row ->
                                                !frameworks.isEmpty()
                                                        || !row.contains(ONLY_BOOT_4)))
                .isEqualTo(table.lines().toList());
    }

    private static List<Row> rows() {
        return List.of(
                Row.of("`@Transactional`", Transacted.class, Transacted::sell).withDatabase(),
                Row.of("`@Retryable` of spring-retry", Retried.class, Retried::sell)
                        .with(Retries.class),
                Row.of(
                                "the same with `@Transactional`",
                                RetriedTransaction.class,
                                RetriedTransaction::sell)
                        .with(Retries.class)
                        .withDatabase(),
                Row.of(
                                "the same, `steadlock.annotation.retry=whole-call`",
                                RetriedTransaction.class,
                                RetriedTransaction::sell)
                        .with(Retries.class)
                        .withDatabase()
                        .property("steadlock.annotation.retry=whole-call"),
                Row.of(
                                "`@Retryable` and `@Recover` of spring-retry, each attempt fails",
                                Recovered.class,
                                Recovered::sell)
                        .with(Retries.class)
                        .eachTime(),
                Row.of(
                                "`@Retryable(stateful = true)`, called twice",
                                Stateful.class,
                                bean -> {
                                    try {
                                        return bean.sell();
                                    } catch (RuntimeException first) {
                                        bean.work().between();
                                        return bean.sell();
                                    }
                                })
                        .with(Retries.class),
                Row.of(
                                "`@Retryable` of spring-retry, of a method that gives a `Mono`",
                                RetriedMono.class,
                                bean -> bean.sell().block())
                        .with(Retries.class),
                Row.of("`@Cacheable`", Cached.class, Cached::sell).with(Caches.class),
                Row.of(
                                "`@Cacheable`, with an `@EnableCaching(order = …)` below that of the lock",
                                Cached.class,
                                Cached::sell)
                        .with(CachesOutside.class),
                Row.of("the same, `onBusy = SKIP`", CachedOrSkipped.class, CachedOrSkipped::sell)
                        .with(CachesOutside.class),
                Row.of(
                                "the same, `unless = \"#result == null\"`",
                                CachedUnlessSkipped.class,
                                CachedUnlessSkipped::sell)
                        .with(CachesOutside.class),
                Row.of("`@CachePut`", Put.class, Put::sell).with(Caches.class),
                Row.of("`@CacheEvict`, of a full cache", Evicted.class, Evicted::sell)
                        .with(Caches.class)
                        .filled(),
                Row.of(
                                "`@Async`, of a method that gives a `CompletableFuture`",
                                Later.class,
                                bean -> join(bean.sell()))
                        .with(AsyncConfig.class),
                Row.of("`@Scheduled`", Job.class, Job::awaitRun).with(Scheduling.class));
    }

    private static String observed(Row row) {
        return Stream.of(
                        row.shown,
                        in(row, "order", OtherAnnotationsTableTest::order),
                        in(row, "busy", OtherAnnotationsTableTest::busy),
                        in(row, "fails", OtherAnnotationsTableTest::fails),
                        in(row, "lost", OtherAnnotationsTableTest::lost))
                .collect(Collectors.joining(" | ", "| ", " |\n"));
    }

    private static String order(Row row, ApplicationContext context, SteadlockClient other) {
        Object bean = context.getBean(row.bean);
        var names =
                Arrays.stream(((Advised) bean).getAdvisors())
                        .map(OtherAnnotationsTableTest::nameOf)
                        .filter(name -> !name.isEmpty())
                        .collect(Collectors.toList());
        if (row.isJob()) {
            names.add(0, "scheduler");
        }
        return String.join(", ", names);
    }

    private static String nameOf(Advisor advisor) {
        String type = advisor.getAdvice().getClass().getSimpleName();
        for (String word : List.of("Lock", "Retry", "Transaction", "Cache", "Async")) {
            if (type.contains(word)) {
                return word.toLowerCase(Locale.ROOT);
            }
        }
        return "";
    }

    /** Runs a call while another client holds the lock, until the call fails for the first time. */
    private static String busy(Row row, ApplicationContext context, SteadlockClient other) {
        var work = context.getBean(Work.class);
        var held = join(other.lock("stock").lockAsync().toCompletableFuture());
        work.betweenFirst = row.eachTime ? () -> {} : held::release;
        work.ready.complete(null);
        String seen = facts(row, context, null, row.call(context));
        if (work.gaps == 0 || row.eachTime) {
            held.release();
        }
        if (row.cacheOf(context) != null && row.bean.getSimpleName().startsWith("Cached")) {
            row.cacheOf(context).put("k", "kept");
            var again = join(other.lock("stock").lockAsync().toCompletableFuture());
            seen += "; if it is in the cache: " + row.call(context);
            again.release();
        }
        return seen;
    }

    /** Runs a call whose body fails the first time. */
    private static String fails(Row row, ApplicationContext context, SteadlockClient other) {
        var work = context.getBean(Work.class);
        work.body =
                run -> {
                    if (run == 1 || row.eachTime) {
                        throw new IllegalStateException("sold out");
                    }
                };
        return withGaps(row, context, other);
    }

    /**
     * Runs a call whose lease is lost during the first run of the body. The body itself does not
     * fail.
     */
    private static String lost(Row row, ApplicationContext context, SteadlockClient other) {
        var work = context.getBean(Work.class);
        work.body =
                run -> {
                    if (run == 1 || row.eachTime) {
                        var lease = work.lease.get();
                        var lost = new CompletableFuture<Object>();
                        lease.onLost(lost::complete);
                        other.forceRelease(other.lock("stock"));
                        // The extension finds the loss at once, and the watchdog only at the
                        // next renewal.
                        assertThatThrownBy(() -> lease.extend(Duration.ofMinutes(1)))
                                .isInstanceOf(LockLostException.class);
                        join(lost);
                    }
                };
        return withGaps(row, context, other);
    }

    private static String withGaps(Row row, ApplicationContext context, SteadlockClient other) {
        var work = context.getBean(Work.class);
        var isFree = new ArrayList<Boolean>();
        work.betweenFirst = () -> isFree.add(isFree(other));
        work.ready.complete(null);
        String seen = row.call(context);
        return facts(row, context, isFree.isEmpty() ? null : isFree.get(0), seen);
    }

    private static boolean isFree(SteadlockClient other) {
        var lock = other.lock("stock");
        boolean isFree = lock.tryLock();
        if (isFree) {
            lock.unlock();
        }
        return isFree;
    }

    /** Returns the observed facts as one line. */
    private static String facts(
            Row row, ApplicationContext context, Boolean isFree, String outcome) {
        var work = context.getBean(Work.class);
        var facts = new ArrayList<String>();
        facts.add(
                switch (work.runs) {
                    case 0 -> "the body does not run";
                    case 1 -> "the body runs once";
                    case 2 -> "the body runs twice";
                    default -> throw new AssertionError("it ran " + work.runs + " times");
                });
        if (isFree != null) {
            facts.add("the lock is " + (isFree ? "free" : "held") + " in between");
        } else if (work.gaps > 0) {
            String then = row.isJob() ? "in the next run" : "after a retry";
            facts.add(work.runs == 0 ? "it is retried" : then);
        }
        if (row.hasDatabase && work.runs > 0) {
            int number = OrderTest.numberIn(context);
            facts.add(number == 0 ? "rolled back" : number == 1 ? "committed" : "committed twice");
        }
        Cache cache = row.cacheOf(context);
        if (cache != null) {
            var kept = cache.get("k");
            facts.add(kept == null ? "nothing in the cache" : "`" + kept.get() + "` in the cache");
        }
        facts.add(outcome);
        return String.join("; ", facts);
    }

    private static String in(Row row, String what, Scenario scenario) {
        var seen = new String[1];
        String server = Programs.server();
        var program =
                Programs.on(server, row.configurations.toArray(new Class<?>[0]))
                        .withBean(Work.class)
                        .withBean("shop", row.bean)
                        .withPropertyValues(row.properties.toArray(new String[0]))
                        .withPropertyValues("test.database=" + UUID.randomUUID());
        program.run(
                context -> {
                    assertThat(context).hasNotFailed();
                    try (var other = Steadlock.connect(server)) {
                        if (row.isFilled) {
                            row.cacheOf(context).put("k", "old");
                        }
                        seen[0] = scenario.observe(row, context, other);
                        assertThat(other.lock("stock").tryLock(20, TimeUnit.SECONDS))
                                .as("the lock is free after " + what)
                                .isTrue();
                    }
                });
        return seen[0];
    }

    static <T> T join(CompletableFuture<T> future) {
        try {
            return future.get(20, TimeUnit.SECONDS);
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof RuntimeException failure
                    ? failure
                    : new CompletionException(failed.getCause());
        } catch (Exception late) {
            throw new AssertionError(late);
        }
    }

    interface Scenario {
        String observe(Row row, ApplicationContext context, SteadlockClient other);
    }

    interface Call<T> {
        Object of(T bean) throws Exception;
    }

    /** A row of the table: a method with other annotations, and its program. */
    static final class Row {
        private final String shown;
        private final Class<?> bean;
        private final Call<Object> call;
        private final List<Class<?>> configurations = new ArrayList<>();
        private final List<String> properties = new ArrayList<>();
        private boolean hasDatabase;
        private boolean eachTime;
        private boolean isFilled;

        private Row(String shown, Class<?> bean, Call<Object> call) {
            this.shown = shown;
            this.bean = bean;
            this.call = call;
        }

        static <T> Row of(String shown, Class<T> bean, Call<T> call) {
            return new Row(shown, bean, it -> call.of(bean.cast(it)));
        }

        Row with(Class<?> configuration) {
            configurations.add(configuration);
            return this;
        }

        Row withDatabase() {
            hasDatabase = true;
            return with(Databases.Jdbc.class);
        }

        Row property(String property) {
            properties.add(property);
            return this;
        }

        /** Makes each attempt fail, not only the first. */
        Row eachTime() {
            eachTime = true;
            return this;
        }

        /** Puts a value into the cache before the call. */
        Row filled() {
            isFilled = true;
            return this;
        }

        private String call(ApplicationContext context) {
            try {
                Object result = call.of(context.getBean(bean));
                if (isJob()) {
                    return "further runs follow";
                }
                return result == null ? "the caller gets null" : "the caller gets `" + result + "`";
            } catch (Exception failure) {
                return "the caller gets `" + failure.getClass().getSimpleName() + "`";
            }
        }

        private boolean isJob() {
            return bean == Job.class;
        }

        private Cache cacheOf(ApplicationContext context) {
            return context.getBeanProvider(CacheManager.class).stream()
                    .map(manager -> manager.getCache("c"))
                    .findFirst()
                    .orElse(null);
        }
    }

    /** The body of an annotated method, with records of its runs. */
    static class Work {
        private final JdbcTemplate jdbc;
        volatile int runs;
        volatile int gaps;
        volatile Body body = run -> {};
        volatile Supplier<Lease> lease = CurrentLease::get;
        volatile Runnable betweenFirst = () -> {};
        final CompletableFuture<Void> ready = new CompletableFuture<>();

        Work(ObjectProvider<JdbcTemplate> jdbc) {
            this.jdbc = jdbc.getIfAvailable();
        }

        String run() {
            runs++;
            if (jdbc != null) {
                jdbc.update("UPDATE stock SET number = number + 1");
            }
            body.run(runs);
            return "sold";
        }

        /** Runs the body in a publisher, whose thread has no lease of its own. */
        Mono<String> mono() {
            return CurrentLease.reactive()
                    .publishOn(Schedulers.boundedElastic())
                    .map(
                            held -> {
                                lease = () -> held;
                                return run();
                            });
        }

        /** Runs after a failed attempt, before the next one. */
        void between() {
            if (ready.isDone() && gaps++ == 0) {
                betweenFirst.run();
            }
        }
    }

    interface Body {
        void run(int run);
    }

    abstract static class Shop {
        final Work work;

        Shop(Work work) {
            this.work = work;
        }
    }

    static class Transacted extends Shop {
        Transacted(Work work) {
            super(work);
        }

        @DistributedLock(name = "'stock'", waitTime = "0s")
        @Transactional
        public String sell() {
            return work.run();
        }
    }

    static class Retried extends Shop {
        Retried(Work work) {
            super(work);
        }

        @Retryable(maxAttempts = 2, backoff = @Backoff(delay = 1))
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public String sell() {
            return work.run();
        }
    }

    static class RetriedTransaction extends Shop {
        RetriedTransaction(Work work) {
            super(work);
        }

        @Retryable(maxAttempts = 2, backoff = @Backoff(delay = 1))
        @DistributedLock(name = "'stock'", waitTime = "0s")
        @Transactional
        public String sell() {
            return work.run();
        }
    }

    static class Recovered extends Shop {
        Recovered(Work work) {
            super(work);
        }

        @Retryable(maxAttempts = 2, backoff = @Backoff(delay = 1))
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public String sell() {
            return work.run();
        }

        @Recover
        public String recover(RuntimeException failure) {
            return "recovered from "
                    + failure.getClass().getSimpleName()
                    + (CurrentLease.find().isPresent() ? " with the lock" : " without the lock");
        }
    }

    static class RetriedMono extends Shop {
        RetriedMono(Work work) {
            super(work);
        }

        @Retryable(maxAttempts = 2, backoff = @Backoff(delay = 1))
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public Mono<String> sell() {
            return work.mono();
        }
    }

    static class Stateful extends Shop {
        Stateful(Work work) {
            super(work);
        }

        Work work() {
            return work;
        }

        @Retryable(stateful = true, maxAttempts = 2)
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public String sell() {
            return work.run();
        }
    }

    static class Cached extends Shop {
        Cached(Work work) {
            super(work);
        }

        @Cacheable(cacheNames = "c", key = "'k'")
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public String sell() {
            return work.run();
        }
    }

    static class CachedOrSkipped extends Shop {
        CachedOrSkipped(Work work) {
            super(work);
        }

        @Cacheable(cacheNames = "c", key = "'k'")
        @DistributedLock(name = "'stock'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public String sell() {
            return work.run();
        }
    }

    static class CachedUnlessSkipped extends Shop {
        CachedUnlessSkipped(Work work) {
            super(work);
        }

        @Cacheable(cacheNames = "c", key = "'k'", unless = "#result == null")
        @DistributedLock(name = "'stock'", waitTime = "0s", onBusy = OnBusy.SKIP)
        public String sell() {
            return work.run();
        }
    }

    static class Put extends Shop {
        Put(Work work) {
            super(work);
        }

        @CachePut(cacheNames = "c", key = "'k'")
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public String sell() {
            return work.run();
        }
    }

    static class Evicted extends Shop {
        Evicted(Work work) {
            super(work);
        }

        @CacheEvict(cacheNames = "c", key = "'k'")
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public String sell() {
            return work.run();
        }
    }

    static class Later extends Shop {
        Later(Work work) {
            super(work);
        }

        @Async
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public CompletableFuture<String> sell() {
            return CompletableFuture.completedFuture(work.run());
        }
    }

    /** A method that the scheduler calls. The next scheduled run is its retry. */
    static class Job extends Shop {
        private final CompletableFuture<String> ended = new CompletableFuture<>();

        Job(Work work) {
            super(work);
        }

        @Scheduled(fixedDelay = 1)
        @DistributedLock(name = "'stock'", waitTime = "0s")
        public void sell() {
            if (work.ready.isDone() && !ended.isDone()) {
                int before = work.runs;
                work.run();
                if (before > 0 || work.gaps > 0) {
                    ended.complete("sold");
                }
            }
        }

        String awaitRun() {
            return join(ended);
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableRetry
    static class Retries {
        @Bean
        Sleeper sleeper(Work work) {
            return millis -> work.between();
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableCaching
    static class Caches {
        @Bean
        CacheManager caches() {
            return new ConcurrentMapCacheManager("c");
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableCaching(order = Ordered.LOWEST_PRECEDENCE - 101)
    static class CachesOutside {
        @Bean
        CacheManager caches() {
            return new ConcurrentMapCacheManager("c");
        }
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAsync(proxyTargetClass = true)
    static class AsyncConfig {}

    @Configuration(proxyBeanMethods = false)
    @EnableScheduling
    static class Scheduling {
        @Bean
        ThreadPoolTaskScheduler scheduler(Work work) {
            var scheduler = new ThreadPoolTaskScheduler();
            scheduler.setErrorHandler(failure -> work.between());
            return scheduler;
        }
    }
}

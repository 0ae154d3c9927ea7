package io.github.steadlock;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.github.steadlock.micrometer.SteadlockMetrics;
import io.github.steadlock.opentelemetry.SteadlockTelemetry;
import io.micrometer.core.instrument.Tags;
import io.micrometer.prometheusmetrics.PrometheusConfig;
import io.micrometer.prometheusmetrics.PrometheusMeterRegistry;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.SdkTracerProvider;
import io.opentelemetry.sdk.trace.export.SimpleSpanProcessor;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.Executor;
import java.util.concurrent.ForkJoinPool;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReadWriteLock;
import org.junit.jupiter.api.Test;

/** Tests the library as a Java program uses it. */
class JavaUsageTest {
    @Test
    void the_java_snippet_of_the_readme_runs() {
        // README
        try (var client = Steadlock.connect("memory://")) {
            var lock = client.lock("stock:42"); // a java.util.concurrent.locks.Lock
            lock.lock();
            try (var lease = lock.getLease()) { // unlocks; an exception of the body goes first
                System.out.println("mine, with fencing token " + lease.getToken());
            }
        }
        // README
    }

    @Test
    void the_snippet_of_opentelemetry_runs() throws Exception {
        InMemorySpanExporter spans = InMemorySpanExporter.create();
        SdkTracerProvider tracers =
                SdkTracerProvider.builder()
                        .addSpanProcessor(SimpleSpanProcessor.create(spans))
                        .build();
        OpenTelemetry openTelemetry = OpenTelemetrySdk.builder().setTracerProvider(tracers).build();
        // README
        try (var client = Steadlock.builder().url("memory://").metrics().connect();
                var telemetry = SteadlockTelemetry.instrument(client, openTelemetry)) {
            var lock = client.lock("stock:42");
            lock.lock(); // a span steadlock.wait
            lock.unlock(); // the end of a span steadlock.hold
        }
        // README
        RedisServerKt.awaitTrue(
                "two spans", 10_000, () -> spans.getFinishedSpanItems().size() == 2);
    }

    @Test
    void the_snippet_of_micrometer_runs() {
        PrometheusMeterRegistry registry = new PrometheusMeterRegistry(PrometheusConfig.DEFAULT);
        // README
        try (var client = Steadlock.builder().url("memory://").metrics().connect();
                var metrics = new SteadlockMetrics(client, Tags.of("client", "shop"))) {
            metrics.bindTo(registry);
            client.lock("stock:42").withLock(lease -> lease.isValid());
            System.out.println(registry.scrape()); // of a PrometheusMeterRegistry
        }
        // README
        assertTrue(registry.getMeters().isEmpty());
    }

    /** Shows why README uses try-with-resources and not an unlock in a finally block. */
    @Test
    void try_with_resources_keeps_the_exception_of_the_body_unlike_finally() {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            NamedLock lock = client.lock("name");
            IOException kept =
                    assertThrows(
                            IOException.class,
                            () -> {
                                lock.lock();
                                try (var lease = lock.getLease()) {
                                    client.forceRelease(lock);
                                    throw new IOException("the body's own");
                                }
                            });
            assertInstanceOf(LockLostException.class, kept.getSuppressed()[0]);
            assertThrows(
                    LockLostException.class,
                    () -> {
                        lock.lock();
                        try {
                            client.forceRelease(lock);
                            throw new IOException("the body's own");
                        } finally {
                            lock.unlock();
                        }
                    });
        }
    }

    @Test
    void an_action_can_throw_checked_exceptions() {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            NamedLock lock = client.lock("name");
            NamedSemaphore semaphore = client.semaphore("permits", 2);
            int caught = 0;
            try {
                lock.withLock(lease -> Files.readString(Path.of("target/nowhere")));
            } catch (IOException failed) {
                caught++;
            }
            try {
                semaphore.withPermits(
                        2, lease -> throwing(new TimeoutException("the action's own")));
            } catch (TimeoutException failed) {
                caught++;
            }
            try {
                semaphore.withPermit(
                        lease -> throwing(new InterruptedException("the action's own")));
            } catch (InterruptedException failed) {
                caught++;
            }
            assertEquals(3, caught);
            assertFalse(lock.isLocked());
            assertEquals(2, semaphore.available());
            // An action without checked exceptions needs no catch block.
            assertEquals("done", lock.withLock(lease -> "done"));
        }
    }

    private static <E extends Exception> boolean throwing(E failure) throws E {
        throw failure;
    }

    @Test
    void the_parameters_of_redisson_work() throws InterruptedException {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            NamedLock lock = client.lock("name");
            assertTrue(lock.tryLock(10, 30, TimeUnit.SECONDS));
            assertLasts(lock, 25, 30);
            lock.lock(10, TimeUnit.SECONDS);
            lock.unlock();
            lock.unlock();
            lock.lock(10, TimeUnit.SECONDS);
            assertLasts(lock, 5, 10);
            assertFalse(client.lock("name").lockAsync().toCompletableFuture().isDone());
            lock.unlock();
        }
    }

    @Test
    void a_lease_of_minus_one_is_renewed_and_other_negative_ones_are_refused() throws Exception {
        try (SteadlockClient client =
                Steadlock.builder().url("memory://").lease(Duration.ofSeconds(3)).connect()) {
            LockOptions own = LockOptions.DEFAULT.withLease(Duration.ofSeconds(3));
            List<NamedLock> locks =
                    List.of(
                            client.lock("a"),
                            client.lock("b"),
                            client.lock("c", own),
                            client.lock("d", own.renewed()));
            locks.get(0).lock(-1, TimeUnit.SECONDS);
            assertTrue(locks.get(1).tryLock(5, -1, TimeUnit.MINUTES));
            locks.get(2).lockInterruptibly(-1, TimeUnit.DAYS);
            assertTrue(locks.get(3).tryLock(-5, -1, TimeUnit.NANOSECONDS));
            long locked = System.nanoTime();
            for (NamedLock lock : locks) {
                // Without a renewal, a lease lasts at most 3 s from here.
                RedisServerKt.awaitTrue(
                        lock + " is renewed",
                        20_000,
                        () -> {
                            Duration left = lock.getLease().getRemaining();
                            return System.nanoTime() - locked + left.toNanos() > 3_500_000_000L;
                        });
                assertTrue(lock.isHeldByCurrentThread(), lock.toString());
                lock.unlock();
            }
            NamedLock lock = locks.get(0);
            assertThrows(InvalidArgumentException.class, () -> lock.lock(0, TimeUnit.SECONDS));
            assertThrows(InvalidArgumentException.class, () -> lock.lock(-2, TimeUnit.SECONDS));
            assertThrows(
                    InvalidArgumentException.class, () -> lock.tryLock(1, -2, TimeUnit.SECONDS));
        }
    }

    @Test
    void the_longest_wait_of_each_unit_is_accepted() throws InterruptedException {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            for (TimeUnit unit : TimeUnit.values()) {
                assertTrue(client.lock("name").tryLock(Long.MAX_VALUE, unit), unit.toString());
                assertTrue(client.lock("name").tryLock(Long.MAX_VALUE, -1, unit), unit.toString());
                assertTrue(client.lock("name").tryLock(Long.MIN_VALUE, unit), unit.toString());
            }
        }
    }

    private static void assertLasts(NamedLock lock, int from, int to) {
        long left = lock.getLease().getRemaining().toMillis();
        assertTrue(left > from * 1_000 && left <= to * 1_000, left + " ms");
    }

    @Test
    void a_named_lock_is_a_jdk_lock() throws InterruptedException {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            Lock lock = client.lock("name");
            assertTrue(lock.tryLock(1, TimeUnit.SECONDS));
            lock.lockInterruptibly();
            lock.unlock();
            lock.unlock();
            assertThrows(IllegalMonitorStateException.class, lock::unlock);
        }
    }

    @Test
    void redlock_takes_several_urls_or_a_list() {
        List<String> urls = List.of("memory://java-a", "memory://java-b", "memory://java-c");
        try (SteadlockClient one = Steadlock.redlock(urls);
                SteadlockClient two = Steadlock.redlock(urls.toArray(String[]::new))) {
            one.lock("name").lock();
            assertFalse(two.lock("name").tryLock());
            one.lock("name").unlock();
        }
    }

    @Test
    void a_named_read_write_lock_is_a_jdk_read_write_lock() {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            ReadWriteLock lock = client.readWriteLock("name");
            lock.readLock().lock();
            assertThrows(InvalidArgumentException.class, lock.writeLock()::tryLock);
            lock.readLock().unlock();
            NamedLock write = client.readWriteLock("name").writeLock();
            long token = write.withLock(Lease::getToken);
            assertTrue(token > 0);
        }
    }

    @Test
    void a_semaphore_has_default_permits_and_leases_to_close() throws InterruptedException {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            NamedSemaphore semaphore = client.semaphore("name", 2);
            try (Lease lease = semaphore.acquire()) {
                assertNull(lease.getToken());
                assertNotNull(semaphore.tryAcquire());
                assertNull(semaphore.tryAcquire(1, Duration.ofMillis(250)));
            }
            semaphore.release();
            int free = semaphore.withPermits(2, lease -> semaphore.available());
            assertEquals(0, free);
            assertEquals(2, semaphore.available());
        }
    }

    @Test
    void a_composite_lock_is_a_jdk_lock() {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            NamedLock one = client.lock("one");
            Lock both = client.multiLock(one, client.semaphore("two", 1).permits(1));
            both.lock();
            assertTrue(client.forceRelease(one));
            assertFalse(one.isLocked());
            assertThrows(LockLostException.class, both::unlock);
            assertThrows(IllegalMonitorStateException.class, both::unlock);
        }
    }

    @Test
    void a_lease_works_in_try_with_resources() {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            NamedLock lock = client.lock("name");
            try (Lease lease = lock.lock(Duration.ofSeconds(10))) {
                assertNotNull(lease.getToken());
                assertTrue(lease.isValid());
                assertTrue(lease.getRemaining().compareTo(Duration.ofSeconds(5)) > 0);
                assertNull(lease.getLostReason());
            }
            assertFalse(lock.isLocked());
        }
    }

    @Test
    void an_action_runs_under_the_lock() {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            NamedLock lock = client.lock("name");
            int levels = lock.withLock(lease -> lock.getHoldCount());
            assertEquals(1, levels);
        }
    }

    @Test
    void stages_run_on_the_executor_of_the_program() {
        AtomicInteger used = new AtomicInteger();
        Executor executor =
                task -> {
                    used.incrementAndGet();
                    ForkJoinPool.commonPool().execute(task);
                };
        try (SteadlockClient client =
                Steadlock.builder()
                        .url("memory://")
                        .lease(Duration.ofSeconds(5))
                        .callbackExecutor(executor)
                        .connect()) {
            ReleaseOutcome outcome =
                    client.lock("name")
                            .lockAsync(LockOptions.DEFAULT.withWait(Duration.ofSeconds(1)))
                            .thenCompose(Lease::releaseAsync)
                            .toCompletableFuture()
                            .join();
            assertEquals(ReleaseOutcome.RELEASED, outcome);
            assertEquals(2, used.get());
        }
    }

    @Test
    void a_lost_lease_calls_its_listener() throws Exception {
        SteadlockClient client = Steadlock.connect("memory://");
        CompletableFuture<LostReason> lost = new CompletableFuture<>();
        client.lock("name").lock(Duration.ofSeconds(10)).onLost(lost::complete);
        client.close();
        assertEquals(LostReason.CLOSED, lost.get(5, TimeUnit.SECONDS));
    }

    @Test
    void exceptions_have_the_lock_and_the_operation() {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            SteadlockException refused =
                    assertThrows(
                            SteadlockException.class,
                            () -> client.lock("name").lock(Duration.ofMillis(1)));
            assertInstanceOf(InvalidArgumentException.class, refused);
            assertEquals("acquire", refused.getOperation());
        }
    }

    @Test
    void outages_have_an_option_a_lease_flag_and_an_exception_flag() {
        LockOptions skip = LockOptions.DEFAULT.onUnavailable(OnUnavailable.SKIP);
        try (SteadlockClient client =
                Steadlock.builder()
                        .url("memory://")
                        .breaker(3, Duration.ofSeconds(1))
                        .onUnavailable(OnUnavailable.valueOf("LOCAL"))
                        .connect()) {
            assertFalse(
                    client.lock("name", skip)
                            .<Boolean, RuntimeException>withLock(Lease::isDegraded));
            SteadlockException refused =
                    assertThrows(
                            SteadlockException.class,
                            () -> client.lock("name", skip).lock(Duration.ofMillis(1)));
            assertFalse(refused.isSkipped());
        }
    }
}

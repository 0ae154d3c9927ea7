package io.github.steadlock.spring.integration;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.Waiting;
import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import java.time.Duration;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.context.annotation.ImportCandidates;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.integration.leader.DefaultCandidate;
import org.springframework.integration.support.leader.LockRegistryLeaderInitiator;
import org.springframework.integration.support.locks.DefaultLockRegistry;
import org.springframework.integration.support.locks.LockRegistry;

/** Tests the registry as Spring Integration uses it. */
@SuppressWarnings({"rawtypes", "unchecked"}) // Only Integration 7 has a type parameter here.
class LockRegistryTest {
    private final ApplicationContextRunner runner =
            new ApplicationContextRunner()
                    .withConfiguration(AutoConfigurations.of(registries()))
                    .withPropertyValues("steadlock.url=memory://");

    /** Returns the auto-configurations of the registry for this version of Spring Boot. */
    private static Class<?>[] registries() {
        return java.util.stream.Stream.concat(
                        java.util.stream.Stream.of(SteadlockAutoConfiguration.class),
                        java.util.stream.StreamSupport.stream(
                                        ImportCandidates.load(
                                                        org.springframework.boot.autoconfigure
                                                                .AutoConfiguration.class,
                                                        null)
                                                .spliterator(),
                                        false)
                                .filter(name -> name.startsWith("io.github.steadlock"))
                                .filter(name -> name.endsWith("RegistryAutoConfiguration"))
                                .map(LockRegistryTest::type))
                .toArray(Class[]::new);
    }

    private static Class<?> type(String name) {
        try {
            return Class.forName(name);
        } catch (ClassNotFoundException missing) {
            throw new AssertionError(missing);
        }
    }

    @Test
    void without_enabled_there_is_none_even_with_a_client_of_the_program() {
        runner.withPropertyValues("steadlock.enabled=false")
                .withBean("own", SteadlockClient.class, () -> Steadlock.connect("memory://"))
                .run(
                        context ->
                                assertThat(context)
                                        .hasNotFailed()
                                        .doesNotHaveBean(LockRegistry.class));
    }

    @Test
    void executeLocked_excludes_the_lock_of_that_name() {
        runner.withPropertyValues("steadlock.registry.prefix=flow:")
                .run(
                        context -> {
                            var registry = context.getBean(LockRegistry.class);
                            var client = context.getBean(SteadlockClient.class);
                            registry.executeLocked(
                                    42,
                                    () ->
                                            assertThat(client.lock("flow:42").isLocked())
                                                    .isTrue());
                            assertThat(client.lock("flow:42").isLocked()).isFalse();
                        });
    }

    @Test
    void a_wait_without_a_grant_times_out() {
        runner.run(
                context -> {
                    var registry = context.getBean(LockRegistry.class);
                    var client = context.getBean(SteadlockClient.class);
                    var lease = client.lock("busy").lockAsync().toCompletableFuture().get();
                    assertThatThrownBy(
                                    () ->
                                            registry.executeLocked(
                                                    "busy", Duration.ofMillis(250), () -> {}))
                            .isInstanceOf(TimeoutException.class);
                    assertThat(registry.obtain("busy").tryLock(250, TimeUnit.MILLISECONDS))
                            .isFalse();
                    lease.release();
                    assertThat(registry.obtain("busy").tryLock()).isTrue();
                    registry.obtain("busy").unlock();
                });
    }

    @Test
    void a_registry_of_mutexes_excludes_mutexes() {
        runner.withPropertyValues("steadlock.registry.kind=mutex")
                .run(
                        context -> {
                            context.getBean(LockRegistry.class).obtain("a").lock();
                            var client = context.getBean(SteadlockClient.class);
                            assertThat(client.mutex("a").tryLock()).isFalse();
                        });
    }

    @Test
    void one_of_two_candidates_leads_and_the_other_follows() {
        runner.run(
                context -> {
                    var registry = context.getBean(LockRegistry.class);
                    var leaders = List.of(candidate(registry), candidate(registry));
                    leaders.forEach(LockRegistryLeaderInitiator::start);
                    Waiting.until("one leads", () -> leading(leaders) == 1);
                    var first = leaders.get(0).getContext().isLeader() ? 0 : 1;
                    leaders.get(first).stop();
                    Waiting.until(
                            "the other leads",
                            () -> leaders.get(1 - first).getContext().isLeader());
                    assertThat(leaders.get(first).getContext().isLeader()).isFalse();
                    leaders.get(1 - first).stop();
                });
    }

    private static LockRegistryLeaderInitiator candidate(LockRegistry registry) {
        var leader = new LockRegistryLeaderInitiator(registry, new DefaultCandidate());
        leader.setBusyWaitMillis(20);
        leader.setHeartBeatMillis(20);
        return leader;
    }

    private static long leading(List<LockRegistryLeaderInitiator> leaders) {
        return leaders.stream().filter(one -> one.getContext().isLeader()).count();
    }

    @Test
    void a_registry_of_the_program_has_precedence_and_it_can_be_switched_off() {
        runner.withBean("own", LockRegistry.class, DefaultLockRegistry::new)
                .run(context -> assertThat(context).hasSingleBean(LockRegistry.class));
        runner.withPropertyValues("steadlock.registry.enabled=false")
                .run(context -> assertThat(context).doesNotHaveBean(LockRegistry.class));
    }
}

package io.github.steadlock.spring.autoconfigure;

import static io.github.steadlock.spring.autoconfigure.Contexts.failure;
import static io.github.steadlock.spring.autoconfigure.Contexts.runner;
import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.RedisServer;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.context.FilteredClassLoader;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.data.redis.core.RedisOperations;

/** Tests which server the client uses. */
@ExtendWith(OutputCaptureExtension.class)
class ServerTest {
    private static final String SECRET = "p@ss/w:rd?";
    private static final RedisServer open = new RedisServer();
    private static final RedisServer guarded = new RedisServer("--requirepass", SECRET);

    @AfterAll
    static void close() {
        open.close();
        guarded.close();
    }

    @Test
    void a_server_is_given_by_host_port_and_password() {
        serves(
                runner(
                        "steadlock.host=127.0.0.1",
                        "steadlock.port=" + guarded.port(),
                        "steadlock.password=" + SECRET),
                "redis://127.0.0.1:" + guarded.port());
    }

    @Test
    void a_database_is_used() {
        runner(
                        "steadlock.host=127.0.0.1",
                        "steadlock.port=" + open.port(),
                        "steadlock.database=3")
                .run(
                        context -> {
                            context.getBean(SteadlockClient.class).lock("in three").lock();
                            assertThat(open.ask("INFO keyspace")).contains("db3:keys");
                        });
    }

    @Test
    void spring_data_redis_names_the_server_if_steadlock_does_not() {
        String[] properties = {
            "spring.data.redis.host=127.0.0.1",
            "spring.data.redis.port=" + guarded.port(),
            "spring.data.redis.password=" + SECRET
        };
        var withData = runner(properties).withConfiguration(SpringData.autoConfiguration());
        serves(withData, "redis://127.0.0.1:" + guarded.port());
        var without =
                withData.withClassLoader(new FilteredClassLoader(RedisOperations.class));
        serves(without, "redis://127.0.0.1:" + guarded.port());
    }

    @Test
    void the_url_of_spring_data_redis_applies_with_and_without_the_library() {
        String url = "redis://127.0.0.1:" + open.port() + "/2";
        var withData =
                runner("spring.data.redis.url=" + url)
                        .withConfiguration(SpringData.autoConfiguration());
        serves(withData, url);
        serves(withData.withClassLoader(new FilteredClassLoader(RedisOperations.class)), url);
    }

    @Test
    void properties_of_steadlock_override_those_of_spring_data_redis() {
        serves(
                runner(
                                "steadlock.url=" + open.url(),
                                "spring.data.redis.host=nowhere.invalid",
                                "spring.data.redis.timeout=0ms")
                        .withConfiguration(SpringData.autoConfiguration()),
                open.url());
    }

    @Test
    void connection_details_override_spring_data_redis() {
        serves(
                runner("spring.data.redis.host=nowhere.invalid")
                        .withConfiguration(SpringData.autoConfiguration())
                        .withBean(
                                "details",
                                SpringData.detailsType(),
                                () -> SpringData.details("127.0.0.1", open.port())),
                open.url());
    }

    @Test
    void sentinels_and_clusters_of_spring_data_redis_are_used() {
        for (boolean withData : new boolean[] {true, false}) {
            var context = runner("steadlock.connect-timeout=300ms");
            if (withData) {
                context = context.withConfiguration(SpringData.autoConfiguration());
            }
            context.withPropertyValues(
                            "spring.data.redis.sentinel.master=main",
                            "spring.data.redis.sentinel.nodes=127.0.0.1:1,127.0.0.1:2",
                            "spring.data.redis.database=1")
                    .run(
                            started ->
                                    assertThat(failure(started.getStartupFailure()))
                                            .hasMessageContaining(
                                                    "redis+sentinel://127.0.0.1:1,127.0.0.1:2/main/1"));
            context.withPropertyValues("spring.data.redis.cluster.nodes=127.0.0.1:1")
                    .run(
                            started ->
                                    assertThat(failure(started.getStartupFailure()))
                                            .hasMessageContaining("redis+cluster://127.0.0.1:1"));
        }
    }

    @Test
    void a_pool_causes_a_notice(CapturedOutput output) {
        runner(
                        "spring.data.redis.port=" + open.port(),
                        "spring.data.redis.lettuce.pool.max-active=20")
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(output).contains("spring.data.redis.lettuce.pool is ignored for locks");
    }

    private static void serves(ApplicationContextRunner runner, String server) {
        runner.run(
                context -> {
                    assertThat(context).hasNotFailed();
                    assertThat(context.getBean(SteadlockServer.class).server()).isEqualTo(server);
                    assertThat(context.getBean(SteadlockClient.class).lock("a").isLocked())
                            .isFalse();
                });
    }
}

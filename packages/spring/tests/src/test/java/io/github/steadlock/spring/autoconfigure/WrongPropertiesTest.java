package io.github.steadlock.spring.autoconfigure;

import static io.github.steadlock.spring.autoconfigure.Contexts.failure;
import static io.github.steadlock.spring.autoconfigure.Contexts.runner;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.github.steadlock.spring.RedisServer;
import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Configuration;

/** Tests wrong properties, which stop the start with a message that names them. */
@ExtendWith(OutputCaptureExtension.class)
class WrongPropertiesTest {
    private static final String SECRET = "hunter2";
    private static final String MEMORY = "steadlock.url=memory://";

    /** Returns the properties that are set, and the names that the message must blame. */
    static Stream<Arguments> wrong() {
        return Stream.of(
                one("steadlock.url", "steadlock.url=http://u:" + SECRET + "@host"),
                one("steadlock.url", "steadlock.url=" + SECRET),
                one("steadlock.host", "steadlock.host=localhost:6379"),
                one("steadlock.host", "steadlock.host=redis://u:" + SECRET + "@host"),
                one("steadlock.port", "steadlock.port=70000"),
                one("steadlock.port", "steadlock.port=-1"),
                one("steadlock.username", "steadlock.username=u"),
                one("steadlock.database", "steadlock.database=-1"),
                one(
                        "steadlock.database",
                        "steadlock.cluster.nodes=a:1",
                        "steadlock.password=" + SECRET,
                        "steadlock.database=1"),
                one(
                        "steadlock.database",
                        "spring.data.redis.port=1",
                        "steadlock.database=1"),
                one(
                        "steadlock.password",
                        "spring.data.redis.cluster.nodes=a",
                        "steadlock.password=" + SECRET),
                one(
                        "steadlock.ssl.enabled",
                        "spring.data.redis.url=redis://a",
                        "steadlock.ssl.enabled=true"),
                one("steadlock.cluster.nodes", "steadlock.cluster.nodes=a b"),
                one("steadlock.sentinel.nodes", "steadlock.sentinel.master=main"),
                one("steadlock.sentinel.master", "steadlock.sentinel.nodes=a"),
                one(
                        "steadlock.sentinel.master",
                        "steadlock.sentinel.nodes=a",
                        "steadlock.sentinel.master=ma in"),
                one(
                        "steadlock.sentinel.username",
                        "steadlock.sentinel.nodes=a",
                        "steadlock.sentinel.master=main",
                        "steadlock.sentinel.username=watch"),
                one("steadlock.primaries", "steadlock.primaries=memory://a,memory://b"),
                one("steadlock.ssl.ca-file", MEMORY, "steadlock.ssl.ca-file=/nowhere.pem"),
                one("steadlock.ssl.ca-file", "steadlock.host=a", "steadlock.ssl.ca-file=/nowhere"),
                one("steadlock.ssl.cert-file", "steadlock.host=a", "steadlock.ssl.cert-file=/c"),
                one("steadlock.ssl.key-file", "steadlock.host=a", "steadlock.ssl.key-file=/k"),
                one(
                        "steadlock.ssl.server-name",
                        "steadlock.host=a",
                        "steadlock.ssl.server-name=a b"),
                one("steadlock.ssl.bundle", "steadlock.host=a", "steadlock.ssl.bundle=none"),
                one("steadlock.command-timeout", MEMORY, "steadlock.command-timeout=0s"),
                one("steadlock.connect-timeout", MEMORY, "steadlock.connect-timeout=25h"),
                one("steadlock.lease", MEMORY, "steadlock.lease=10ms"),
                one("steadlock.key-prefix", MEMORY, "steadlock.key-prefix={"),
                one("steadlock.retry-interval.min", MEMORY, "steadlock.retry-interval.min=0s"),
                both(
                        List.of("steadlock.retry-interval.min", "steadlock.retry-interval.max"),
                        MEMORY,
                        "steadlock.retry-interval.min=2s",
                        "steadlock.retry-interval.max=1s"),
                one("steadlock.breaker.failures", MEMORY, "steadlock.breaker.failures=0"),
                one(
                        "steadlock.breaker.pause",
                        MEMORY,
                        "steadlock.breaker.failures=1",
                        "steadlock.breaker.pause=0s"),
                one(
                        "steadlock.on-unavailable",
                        "steadlock.primaries=memory://a,memory://b,memory://c",
                        "steadlock.on-unavailable=local"),
                one("steadlock.metrics.groups", MEMORY, "steadlock.metrics.groups=0"),
                one(
                        "steadlock.metrics.groups",
                        MEMORY,
                        "steadlock.metrics.enabled=false",
                        "steadlock.metrics.groups=5"),
                one("steadlock.metrics.queues", MEMORY, "steadlock.metrics.queues=steadlock:a"),
                one(
                        "steadlock.client-label",
                        MEMORY,
                        "steadlock.client-info=false",
                        "steadlock.client-label=a"),
                one("spring.application.name", MEMORY, "spring.application.name=" + "a".repeat(201)),
                one("steadlock.address-map", MEMORY, "steadlock.address-map.[a:1]=b:1"),
                one("spring.data.redis.timeout", "spring.data.redis.timeout=0s"),
                one("spring.data.redis.port", "spring.data.redis.port=70000"),
                both(
                        List.of("steadlock.host", "steadlock.url"),
                        MEMORY,
                        "steadlock.host=localhost"),
                both(
                        List.of("steadlock.username", "steadlock.url"),
                        MEMORY,
                        "steadlock.username=u",
                        "steadlock.password=" + SECRET),
                both(List.of("steadlock.ssl.enabled", "steadlock.url"), MEMORY, "steadlock.ssl.enabled=true"),
                both(
                        List.of("steadlock.cluster.nodes", "steadlock.sentinel.master"),
                        "steadlock.cluster.nodes=a",
                        "steadlock.sentinel.master=b"));
    }

    private static Arguments one(String name, String... properties) {
        return both(List.of(name), properties);
    }

    private static Arguments both(List<String> names, String... properties) {
        return Arguments.of(names, properties);
    }

    @ParameterizedTest
    @MethodSource("wrong")
    void a_wrong_property_is_named_with_its_value_and_range(List<String> names, String[] properties) {
        runner(properties)
                .run(
                        context -> {
                            SteadlockStartException failure = failure(context.getStartupFailure());
                            assertThat(failure).isNotNull();
                            assertThat(failure.properties()).containsExactlyElementsOf(names);
                            assertThat(failure.getMessage())
                                    .contains(names)
                                    .doesNotContain(SECRET);
                            assertThat(failure.action()).contains(names.get(0)).doesNotContain(SECRET);
                        });
    }

    @Test
    void values_are_shown_unless_they_can_be_secret() {
        runner(MEMORY, "steadlock.lease=10ms")
                .run(
                        context ->
                                assertThat(failure(context.getStartupFailure()))
                                        .hasMessageContaining(
                                                "The property steadlock.lease is '10ms'")
                                        .hasMessageContaining("give 300ms to 24 h"));
    }

    @Test
    void a_failed_start_names_the_wrong_property(CapturedOutput output) {
        fails(MEMORY, "steadlock.lease=10ms");
        assertThat(output)
                .contains("APPLICATION FAILED TO START")
                .contains("The property steadlock.lease is '10ms'")
                .contains("Change steadlock.lease");
    }

    @Test
    void an_unknown_name_is_reported_without_its_value(CapturedOutput output) {
        fails(MEMORY, "steadlock.pasword=" + SECRET);
        assertThat(output)
                .contains("There is no such property: steadlock.pasword")
                .doesNotContain(SECRET);
    }

    @Test
    void an_invalid_duration_is_named(CapturedOutput output) {
        fails(MEMORY, "steadlock.lease=soon");
        assertThat(output).contains("steadlock.lease").contains("soon");
    }

    @Test
    void an_unreachable_server_is_named_with_advice(CapturedOutput output) {
        fails(
                "steadlock.host=127.0.0.1",
                "steadlock.port=1",
                "steadlock.username=user",
                "steadlock.password=" + SECRET);
        assertThat(output)
                .contains("No locks at the server redis://127.0.0.1:1")
                .contains("steadlock.port")
                .contains("steadlock.lazy=true")
                .doesNotContain(SECRET);
    }

    @Test
    void a_wrong_password_stops_the_start_and_is_not_shown(CapturedOutput output) {
        try (var server = new RedisServer("--requirepass", "right")) {
            fails("steadlock.url=redis://:" + SECRET + "@127.0.0.1:" + server.port());
            assertThat(output)
                    .contains("No locks at the server " + server.url() + ", of steadlock.url")
                    .contains("password")
                    .doesNotContain(SECRET);
        }
    }

    private static void fails(String... properties) {
        SpringApplication program =
                new SpringApplicationBuilder(Program.class)
                        .web(WebApplicationType.NONE)
                        .properties(properties)
                        .build();
        assertThatThrownBy(program::run).isNotNull();
    }

    @Configuration(proxyBeanMethods = false)
    @ImportAutoConfiguration(SteadlockAutoConfiguration.class)
    static class Program {}
}

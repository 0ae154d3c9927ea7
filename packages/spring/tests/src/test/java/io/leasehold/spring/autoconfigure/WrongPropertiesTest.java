package io.leasehold.spring.autoconfigure;

import static io.leasehold.spring.autoconfigure.Contexts.failure;
import static io.leasehold.spring.autoconfigure.Contexts.runner;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.leasehold.spring.RedisServer;
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

/** Properties that stop the start, which names them. */
@ExtendWith(OutputCaptureExtension.class)
class WrongPropertiesTest {
    private static final String SECRET = "hunter2";
    private static final String MEMORY = "leasehold.url=memory://";

    /** What is set, and the names that are blamed. */
    static Stream<Arguments> wrong() {
        return Stream.of(
                one("leasehold.url", "leasehold.url=http://u:" + SECRET + "@host"),
                one("leasehold.url", "leasehold.url=" + SECRET),
                one("leasehold.host", "leasehold.host=localhost:6379"),
                one("leasehold.host", "leasehold.host=redis://u:" + SECRET + "@host"),
                one("leasehold.port", "leasehold.port=70000"),
                one("leasehold.port", "leasehold.port=-1"),
                one("leasehold.username", "leasehold.username=u"),
                one("leasehold.database", "leasehold.database=-1"),
                one(
                        "leasehold.database",
                        "leasehold.cluster.nodes=a:1",
                        "leasehold.password=" + SECRET,
                        "leasehold.database=1"),
                one("leasehold.cluster.nodes", "leasehold.cluster.nodes=a b"),
                one("leasehold.sentinel.nodes", "leasehold.sentinel.master=main"),
                one("leasehold.sentinel.master", "leasehold.sentinel.nodes=a"),
                one(
                        "leasehold.sentinel.master",
                        "leasehold.sentinel.nodes=a",
                        "leasehold.sentinel.master=ma in"),
                one(
                        "leasehold.sentinel.username",
                        "leasehold.sentinel.nodes=a",
                        "leasehold.sentinel.master=main",
                        "leasehold.sentinel.username=watch"),
                one("leasehold.primaries", "leasehold.primaries=memory://a,memory://b"),
                one("leasehold.ssl.ca-file", MEMORY, "leasehold.ssl.ca-file=/nowhere.pem"),
                one("leasehold.ssl.ca-file", "leasehold.host=a", "leasehold.ssl.ca-file=/nowhere"),
                one("leasehold.ssl.cert-file", "leasehold.host=a", "leasehold.ssl.cert-file=/c"),
                one("leasehold.ssl.key-file", "leasehold.host=a", "leasehold.ssl.key-file=/k"),
                one(
                        "leasehold.ssl.server-name",
                        "leasehold.host=a",
                        "leasehold.ssl.server-name=a b"),
                one("leasehold.ssl.bundle", "leasehold.host=a", "leasehold.ssl.bundle=none"),
                one("leasehold.timeout", MEMORY, "leasehold.timeout=0s"),
                one("leasehold.connect-timeout", MEMORY, "leasehold.connect-timeout=25h"),
                one("leasehold.lease", MEMORY, "leasehold.lease=10ms"),
                one("leasehold.key-prefix", MEMORY, "leasehold.key-prefix={"),
                one("leasehold.retry-interval.min", MEMORY, "leasehold.retry-interval.min=0s"),
                both(
                        List.of("leasehold.retry-interval.min", "leasehold.retry-interval.max"),
                        MEMORY,
                        "leasehold.retry-interval.min=2s",
                        "leasehold.retry-interval.max=1s"),
                one("leasehold.breaker.failures", MEMORY, "leasehold.breaker.failures=0"),
                one(
                        "leasehold.breaker.pause",
                        MEMORY,
                        "leasehold.breaker.failures=1",
                        "leasehold.breaker.pause=0s"),
                one(
                        "leasehold.on-unavailable",
                        "leasehold.primaries=memory://a,memory://b,memory://c",
                        "leasehold.on-unavailable=local"),
                one("leasehold.metrics.groups", MEMORY, "leasehold.metrics.groups=0"),
                one(
                        "leasehold.metrics.groups",
                        MEMORY,
                        "leasehold.metrics.enabled=false",
                        "leasehold.metrics.groups=5"),
                one("leasehold.metrics.queues", MEMORY, "leasehold.metrics.queues=leasehold:a"),
                one(
                        "leasehold.client-label",
                        MEMORY,
                        "leasehold.client-info=false",
                        "leasehold.client-label=a"),
                one("spring.application.name", MEMORY, "spring.application.name=" + "a".repeat(201)),
                one("leasehold.address-map", MEMORY, "leasehold.address-map.[a:1]=b:1"),
                one("spring.data.redis.timeout", "spring.data.redis.timeout=0s"),
                one("spring.data.redis.port", "spring.data.redis.port=70000"),
                both(
                        List.of("leasehold.host", "leasehold.url"),
                        MEMORY,
                        "leasehold.host=localhost"),
                both(
                        List.of("leasehold.username", "leasehold.url"),
                        MEMORY,
                        "leasehold.username=u",
                        "leasehold.password=" + SECRET),
                both(List.of("leasehold.ssl.enabled", "leasehold.url"), MEMORY, "leasehold.ssl.enabled=true"),
                both(
                        List.of("leasehold.cluster.nodes", "leasehold.sentinel.master"),
                        "leasehold.cluster.nodes=a",
                        "leasehold.sentinel.master=b"));
    }

    private static Arguments one(String name, String... properties) {
        return both(List.of(name), properties);
    }

    private static Arguments both(List<String> names, String... properties) {
        return Arguments.of(names, properties);
    }

    @ParameterizedTest
    @MethodSource("wrong")
    void is_named_with_what_it_says_and_what_is_allowed(List<String> names, String[] properties) {
        runner(properties)
                .run(
                        context -> {
                            LeaseholdStartException failure = failure(context.getStartupFailure());
                            assertThat(failure).isNotNull();
                            assertThat(failure.properties()).containsExactlyElementsOf(names);
                            assertThat(failure.getMessage())
                                    .contains(names)
                                    .doesNotContain(SECRET);
                            assertThat(failure.action()).contains(names.get(0)).doesNotContain(SECRET);
                        });
    }

    @Test
    void values_are_shown_unless_they_may_be_secret() {
        runner(MEMORY, "leasehold.lease=10ms")
                .run(
                        context ->
                                assertThat(failure(context.getStartupFailure()))
                                        .hasMessageContaining(
                                                "The property leasehold.lease is '10ms'")
                                        .hasMessageContaining("give 300ms to 24 h"));
    }

    @Test
    void the_start_of_a_program_says_which_property_is_wrong(CapturedOutput output) {
        fails(MEMORY, "leasehold.lease=10ms");
        assertThat(output)
                .contains("APPLICATION FAILED TO START")
                .contains("The property leasehold.lease is '10ms'")
                .contains("Change leasehold.lease");
    }

    @Test
    void a_name_that_does_not_exist_is_told_without_its_value(CapturedOutput output) {
        fails(MEMORY, "leasehold.pasword=" + SECRET);
        assertThat(output)
                .contains("There is no such property: leasehold.pasword")
                .doesNotContain(SECRET);
    }

    @Test
    void what_is_no_duration_is_named(CapturedOutput output) {
        fails(MEMORY, "leasehold.lease=soon");
        assertThat(output).contains("leasehold.lease").contains("soon");
    }

    @Test
    void a_server_that_is_not_there_is_named_and_how_to_start_without_it(CapturedOutput output) {
        fails(
                "leasehold.host=127.0.0.1",
                "leasehold.port=1",
                "leasehold.username=user",
                "leasehold.password=" + SECRET);
        assertThat(output)
                .contains("No locks at the server redis://127.0.0.1:1")
                .contains("leasehold.port")
                .contains("leasehold.lazy=true")
                .doesNotContain(SECRET);
    }

    @Test
    void a_wrong_password_stops_the_start_and_is_not_shown(CapturedOutput output) {
        try (var server = new RedisServer("--requirepass", "right")) {
            fails("leasehold.url=redis://:" + SECRET + "@127.0.0.1:" + server.port());
            assertThat(output)
                    .contains("No locks at the server " + server.url() + ", of leasehold.url")
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
    @ImportAutoConfiguration(LeaseholdAutoConfiguration.class)
    static class Program {}
}

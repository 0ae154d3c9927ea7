package io.github.steadlock.spring.autoconfigure;

import static io.github.steadlock.spring.autoconfigure.Variables.runner;
import static org.assertj.core.api.Assertions.assertThat;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/**
 * Tests variables that Kubernetes and Docker set for services whose names begin like Steadlock's
 * properties.
 */
@ExtendWith(OutputCaptureExtension.class)
class ServiceLinksTest {
    private static final String MEMORY = "steadlock.url=memory://";

    /** Returns the variables that Kubernetes sets for a service with one named port. */
    private static String[] service(String name, String... others) {
        var variables =
                new ArrayList<>(
                        List.of(
                                name + "_SERVICE_HOST=10.0.0.1",
                                name + "_SERVICE_PORT=6379",
                                name + "_SERVICE_PORT_REDIS=6379",
                                name + "_PORT=tcp://10.0.0.1:6379",
                                name + "_PORT_6379_TCP=tcp://10.0.0.1:6379",
                                name + "_PORT_6379_TCP_PROTO=tcp",
                                name + "_PORT_6379_TCP_PORT=6379",
                                name + "_PORT_6379_TCP_ADDR=10.0.0.1"));
        variables.addAll(List.of(others));
        return variables.toArray(String[]::new);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "STEADLOCK",
                "STEADLOCK_REDIS",
                "STEADLOCK_SENTINEL",
                "STEADLOCK_SSL",
                "STEADLOCK_METRICS",
                "STEADLOCK_METRICS_QUEUES",
                "STEADLOCK_RETRY_INTERVAL",
                "STEADLOCK_PRIMARIES",
                "STEADLOCK_PRIMARIES_0",
                "STEADLOCK_CLUSTER_NODES_1",
                "STEADLOCK_URL",
                "STEADLOCK_ADDRESS_MAP",
                "STEADLOCK_ADDRESSMAP",
                "STEADLOCK_COMMAND_TIMEOUTS"
            })
    void service_links_are_ignored_for_any_service_name(
            String name, CapturedOutput output) {
        runner(service(name))
                .withPropertyValues(MEMORY)
                .run(
                        context -> {
                            assertThat(context).hasNotFailed();
                            var properties = context.getBean(SteadlockProperties.class);
                            assertThat(properties.port()).isNull();
                            assertThat(properties.primaries()).isNull();
                            assertThat(properties.addressMap()).isNull();
                        });
        assertThat(output).doesNotContain("without effect");
    }

    @Test
    void docker_links_are_ignored(CapturedOutput output) {
        runner(
                        "STEADLOCK_PORT=udp://172.17.0.5:6379",
                        "STEADLOCK_NAME=/web/steadlock",
                        "STEADLOCK_SSL_SERVER_NAME=/web/steadlock_ssl_server",
                        "STEADLOCK_ENV_LEASE=x",
                        "STEADLOCK_PORT_6379_TCP_PORT_START=6379")
                .withPropertyValues(MEMORY)
                .run(
                        context -> {
                            assertThat(context).hasNotFailed();
                            assertThat(context.getBean(SteadlockProperties.class).ssl().serverName())
                                    .isNull();
                        });
        assertThat(output).doesNotContain("without effect");
    }

    @Test
    void service_links_do_not_hide_a_property_of_a_file() {
        assertPort(runner(service("STEADLOCK")).withPropertyValues("steadlock.port=6380"), 6380);
    }

    /** Uses a source that comes after the variables, like application.properties. */
    @Test
    void service_links_do_not_hide_a_property_of_a_later_source() {
        assertPort(
                runner(service("STEADLOCK"))
                        .withInitializer(
                                context ->
                                        context.getEnvironment()
                                                .getPropertySources()
                                                .addLast(
                                                        Variables.source(
                                                                "file",
                                                                "steadlock.port=${a.port}",
                                                                "a.port=6380"))),
                6380);
    }

    @Test
    void other_variables_are_not_affected() {
        runner(
                        service(
                                "STEADLOCK_REDIS",
                                "STEADLOCK_PORT=6380",
                                "STEADLOCK_RETRY_INTERVAL_MIN=100ms",
                                "STEADLOCK_METRICS_QUEUES_0=a"))
                .withPropertyValues("steadlock.lazy=true")
                .run(
                        context -> {
                            var properties = context.getBean(SteadlockProperties.class);
                            assertThat(properties.port()).isEqualTo(6380);
                            assertThat(properties.retryInterval().min()).hasMillis(100);
                            assertThat(properties.metrics().queues()).containsExactly("a");
                        });
    }

    @Test
    void placeholders_can_read_service_links() {
        runner(service("STEADLOCK"))
                .withPropertyValues(
                        "steadlock.lazy=true",
                        "steadlock.host=${STEADLOCK_SERVICE_HOST}",
                        "steadlock.port=${STEADLOCK_SERVICE_PORT}")
                .run(
                        context ->
                                assertThat(context.getBean(SteadlockServer.class).server())
                                        .isEqualTo("redis://10.0.0.1:6379"));
    }

    @Test
    void an_invalid_port_is_still_refused() {
        runner(service("STEADLOCK_REDIS", "STEADLOCK_PORT=abc"))
                .run(
                        context ->
                                assertThat(context)
                                        .getFailure()
                                        .rootCause()
                                        .hasMessageContaining("abc"));
    }

    @Test
    void an_unknown_name_in_a_file_still_stops_the_start() {
        runner(service("STEADLOCK"))
                .withPropertyValues(MEMORY, "steadlock.leases=3s")
                .run(
                        context ->
                                assertThat(context)
                                        .getFailure()
                                        .rootCause()
                                        .hasMessageContaining("steadlock.leases"));
    }

    @Test
    void links_of_a_service_named_like_spring_properties_are_ignored() {
        assertPort(
                runner(service("SPRING_DATA_REDIS")).withPropertyValues("steadlock.port=6380"),
                6380);
    }

    private static void assertPort(ApplicationContextRunner runner, int port) {
        runner.withPropertyValues("steadlock.lazy=true")
                .run(
                        context -> {
                            assertThat(context).hasNotFailed();
                            assertThat(context.getBean(SteadlockProperties.class).port())
                                    .isEqualTo(port);
                        });
    }
}

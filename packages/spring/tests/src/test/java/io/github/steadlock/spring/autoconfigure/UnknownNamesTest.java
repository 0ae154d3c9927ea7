package io.github.steadlock.spring.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.StandardEnvironment;

/** Tests unknown names in environment variables and system properties. */
@ExtendWith(OutputCaptureExtension.class)
class UnknownNamesTest {
    private static final String SECRET = "hunter2";
    private static final String MEMORY = "steadlock.url=memory://";

    @ParameterizedTest
    @CsvSource({
        "STEADLOCK_LEASES, steadlock.leases, steadlock.lease",
        "STEADLOCK_PASWORD, steadlock.pasword, steadlock.password",
        "STEADLOCK_ULR, steadlock.ulr, steadlock.url",
        "STEADLOCK_SSLENABLED, steadlock.sslenabled, steadlock.ssl.enabled",
        "STEADLOCK_COMMAND_TIME_OUT, steadlock.command.time.out, steadlock.command-timeout",
        "STEADLOCK_TIMEOUT, steadlock.timeout, steadlock.command-timeout or steadlock.connect-timeout",
        "STEADLOCK_ADDRESS_MAP_A, steadlock.address.map.a, steadlock.address-map",
        "STEADLOCK_PRIMARIES_FIRST, steadlock.primaries.first, steadlock.primaries"
    })
    void a_misspelled_variable_stops_the_start(
            String variable, String name, String meant, CapturedOutput output) {
        fails(variable);
        assertThat(output)
                .contains("There is no such property: " + name + " (System Environment Property")
                .contains("\"" + variable + "\"")
                .contains("In place of " + name + ", did you mean " + meant + "?")
                .doesNotContain(SECRET);
    }

    @ParameterizedTest
    @ValueSource(strings = {"steadlock.leases", "steadlock.timeout", "steadlock.home", "steadlock.command.timeout"})
    void a_misspelled_system_property_stops_the_start(String name, CapturedOutput output) {
        failsOnSystemProperty(name);
        assertThat(output)
                .contains("There is no such property: " + name)
                .contains("systemProperties")
                .doesNotContain(SECRET);
    }

    @Test
    void a_value_for_the_prefix_stops_the_start(CapturedOutput output) {
        assertThatThrownBy(() -> builder().properties("steadlock=redis://:" + SECRET + "@a").run());
        assertThat(output)
                .contains("There is no such property: steadlock (")
                .contains("did you mean steadlock.url?")
                .doesNotContain(SECRET);
    }

    @Test
    void an_empty_prefix_is_accepted() {
        try (var context = builder().properties(MEMORY, "steadlock=").run()) {
            assertThat(context.isActive()).isTrue();
        }
    }

    @Test
    void an_unknown_name_in_a_file_gets_a_suggestion(CapturedOutput output) {
        assertThatThrownBy(() -> builder().properties(MEMORY, "steadlock.timeout=3s").run());
        assertThat(output)
                .contains("There is no such property: steadlock.timeout")
                .contains("did you mean steadlock.command-timeout or steadlock.connect-timeout?");
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "STEADLOCK_HOME",
                "STEADLOCK_NAME",
                "STEADLOCK_SERVER_6_2",
                "STEADLOCK_OF_SOMEBODY_ELSE_LEASE",
                "STEADLOCK_PASSWORD_FILE"
            })
    void an_unknown_variable_causes_a_warning_without_its_value(
            String variable, CapturedOutput output) {
        starts(variable + "=" + SECRET);
        assertThat(output)
                .containsPattern("without effect: [^ ]+ \\(\"" + variable + "\"")
                .doesNotContain(SECRET);
    }

    @ParameterizedTest
    @ValueSource(
            strings = {
                "STEADLOCK_COMMANDTIMEOUT=2s",
                "STEADLOCK_COMMAND_TIMEOUT=2s",
                "steadlock_command_timeout=2s",
                "steadlock.command-timeout=2s",
                "STEADLOCK_RETRY_INTERVAL_MIN=1s",
                "STEADLOCK_RETRYINTERVAL_MIN=1s",
                "STEADLOCK_METRICS_QUEUES=a,b",
                "STEADLOCK_METRICS_QUEUES_0=a",
                "STEADLOCK_WAIT=1s",
                "STEADLOCK_ANNOTATION_COMMITGUARD=true",
                "STEADLOCK_LOCK=nightly",
                "STEADLOCK_TOKEN=7",
                "SPRING_APPLICATION_JSON={}"
            })
    void known_variables_cause_no_warning(
            String variable, CapturedOutput output) {
        starts(variable);
        assertThat(output).doesNotContain("without effect");
    }

    @Test
    void an_entry_of_the_address_map_is_known() {
        Variables.runner("STEADLOCK_ADDRESSMAP_A=b")
                .withPropertyValues("steadlock.cluster.nodes=a", "steadlock.lazy=true")
                .run(
                        context ->
                                assertThat(context.getBean(SteadlockProperties.class).addressMap())
                                        .containsEntry("a", "b"));
    }

    @Test
    void a_variable_in_a_placeholder_causes_no_warning(CapturedOutput output) {
        Variables.runner("STEADLOCK_HOSTS=memory", "STEADLOCK_PASS=")
                .withPropertyValues("steadlock.url=${STEADLOCK_HOSTS}://${STEADLOCK_PASS:}")
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(output).doesNotContain("without effect");
    }

    @Test
    void a_program_without_steadlock_is_not_checked(CapturedOutput output) {
        Variables.runner("STEADLOCK_LEASES=3s", "STEADLOCK_HOME=/opt", "STEADLOCK_ENABLED=false")
                .run(context -> assertThat(context).hasNotFailed());
        assertThat(output).doesNotContain("without effect");
    }

    private static void starts(String variable) {
        Variables.runner(variable)
                .withPropertyValues(MEMORY)
                .run(context -> assertThat(context).hasNotFailed());
    }

    private static void fails(String variable) {
        var environment = new StandardEnvironment();
        Variables.set(environment, variable + "=" + SECRET);
        fails(environment);
    }

    private static void failsOnSystemProperty(String name) {
        var environment = new StandardEnvironment();
        Variables.setSystem(environment, name + "=" + SECRET);
        fails(environment);
    }

    private static void fails(StandardEnvironment environment) {
        assertThatThrownBy(() -> builder().environment(environment).properties(MEMORY).run())
                .isNotNull();
    }

    private static SpringApplicationBuilder builder() {
        return new SpringApplicationBuilder(Program.class).web(WebApplicationType.NONE);
    }

    @Configuration(proxyBeanMethods = false)
    @ImportAutoConfiguration(SteadlockAutoConfiguration.class)
    static class Program {}
}

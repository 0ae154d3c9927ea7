package io.github.steadlock.spring.actuate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.Steadlock;
import org.junit.jupiter.api.Test;

/** Tests the health check without Spring. */
class SteadlockHealthTest {
    @Test
    void several_primaries_are_asked_as_one_server_is() {
        try (var client = Steadlock.redlock("memory://h1", "memory://h2", "memory://h3")) {
            var finding = new SteadlockHealth(client, null).look();
            assertThat(finding.isUp()).isTrue();
            assertThat(finding.details()).containsOnlyKeys("roundTrip");
        }
    }

    @Test
    void a_closed_client_is_down_and_the_kind_is_told() {
        var client = Steadlock.connect("memory://");
        client.close();
        var finding = new SteadlockHealth(client, "memory://").look();
        assertThat(finding.isUp()).isFalse();
        assertThat(finding.details()).containsEntry("kind", "Closed");
    }
}

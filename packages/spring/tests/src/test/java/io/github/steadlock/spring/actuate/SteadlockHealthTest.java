package io.github.steadlock.spring.actuate;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.Steadlock;
import org.junit.jupiter.api.Test;

/** Tests the health check without Spring. */
class SteadlockHealthTest {
    @Test
    void several_primaries_are_checked_like_one_server() {
        try (var client = Steadlock.redlock("memory://h1", "memory://h2", "memory://h3")) {
            var result = new SteadlockHealth(client, null).check();
            assertThat(result.isUp()).isTrue();
            assertThat(result.details()).containsOnlyKeys("roundTrip");
        }
    }

    @Test
    void a_closed_client_is_down_with_its_kind() {
        var client = Steadlock.connect("memory://");
        client.close();
        var result = new SteadlockHealth(client, "memory://").check();
        assertThat(result.isUp()).isFalse();
        assertThat(result.details()).containsEntry("kind", "Closed");
    }
}

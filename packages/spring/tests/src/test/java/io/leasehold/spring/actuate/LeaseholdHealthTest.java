package io.leasehold.spring.actuate;

import static org.assertj.core.api.Assertions.assertThat;

import io.leasehold.Leasehold;
import org.junit.jupiter.api.Test;

/** What health finds without Spring. */
class LeaseholdHealthTest {
    @Test
    void several_primaries_are_asked_as_one_server_is() {
        try (var client = Leasehold.redlock("memory://h1", "memory://h2", "memory://h3")) {
            var finding = new LeaseholdHealth(client, null).look();
            assertThat(finding.isUp()).isTrue();
            assertThat(finding.details()).containsOnlyKeys("roundTrip");
        }
    }

    @Test
    void a_closed_client_is_down_and_the_kind_is_told() {
        var client = Leasehold.connect("memory://");
        client.close();
        var finding = new LeaseholdHealth(client, "memory://").look();
        assertThat(finding.isUp()).isFalse();
        assertThat(finding.details()).containsEntry("kind", "Closed");
    }
}

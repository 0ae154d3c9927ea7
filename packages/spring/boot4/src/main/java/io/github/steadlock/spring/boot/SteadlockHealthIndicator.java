package io.github.steadlock.spring.boot;

import io.github.steadlock.spring.actuate.SteadlockHealth;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;

/** The health contributor {@code steadlock}: up while the server answers a query about a lock. */
public class SteadlockHealthIndicator implements HealthIndicator {
    private final SteadlockHealth health;

    /** Makes an indicator that reports the results of {@code health}. */
    public SteadlockHealthIndicator(SteadlockHealth health) {
        this.health = health;
    }

    /** Asks the server, which answers within the command timeout or counts as down. */
    @Override
    public Health health() {
        SteadlockHealth.Result result = health.check();
        Health.Builder builder = result.isUp() ? Health.up() : Health.down(result.failure());
        return builder.withDetails(result.details()).build();
    }
}

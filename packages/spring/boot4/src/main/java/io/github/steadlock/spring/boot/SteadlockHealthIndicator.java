package io.github.steadlock.spring.boot;

import io.github.steadlock.spring.actuate.SteadlockHealth;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;

/** The health contributor {@code steadlock}: up while the server says who holds a lock. */
public class SteadlockHealthIndicator implements HealthIndicator {
    private final SteadlockHealth health;

    /** Tells what {@code health} finds. */
    public SteadlockHealthIndicator(SteadlockHealth health) {
        this.health = health;
    }

    /** Asks the server: one call, which ends within the command timeout. */
    @Override
    public Health health() {
        SteadlockHealth.Finding finding = health.look();
        Health.Builder builder = finding.isUp() ? Health.up() : Health.down(finding.failure());
        return builder.withDetails(finding.details()).build();
    }
}

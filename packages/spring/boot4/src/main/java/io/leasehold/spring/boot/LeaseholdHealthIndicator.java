package io.leasehold.spring.boot;

import io.leasehold.spring.actuate.LeaseholdHealth;
import org.springframework.boot.health.contributor.Health;
import org.springframework.boot.health.contributor.HealthIndicator;

/** The health contributor {@code leasehold}: up while the server says who holds a lock. */
public class LeaseholdHealthIndicator implements HealthIndicator {
    private final LeaseholdHealth health;

    /** Tells what {@code health} finds. */
    public LeaseholdHealthIndicator(LeaseholdHealth health) {
        this.health = health;
    }

    /** Asks the server: one call, which ends within the command timeout. */
    @Override
    public Health health() {
        LeaseholdHealth.Finding finding = health.look();
        Health.Builder builder = finding.isUp() ? Health.up() : Health.down(finding.failure());
        return builder.withDetails(finding.details()).build();
    }
}

package io.github.steadlock.examples.seckill;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.boot.context.properties.bind.Name;

/**
 * The properties {@code seckill.*}.
 *
 * @param variant how the service keeps users from buying twice
 * @param waiting how long a request waits for the lock of its user before the service refuses it as
 *     "busy"
 * @param stock the number of vouchers that a new database starts with
 * @param instance the name of this instance, which is stored in its orders
 */
@ConfigurationProperties("seckill")
record Seckill(
        @DefaultValue("outside") Variant variant,
        @Name("wait") @DefaultValue("150ms") Duration waiting,
        @DefaultValue("100") int stock,
        @DefaultValue("one") String instance) {
    /** Three variants of a sale. Only the last is correct. */
    enum Variant {
        /** {@link WithoutLock}, and no constraint. */
        NONE,
        /** {@link LockInside}, and no constraint. */
        INSIDE,
        /** {@link LockOutside}, and the constraint. */
        OUTSIDE
    }
}

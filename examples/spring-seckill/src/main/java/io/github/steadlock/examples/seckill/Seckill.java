package io.github.steadlock.examples.seckill;

import java.time.Duration;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;
import org.springframework.boot.context.properties.bind.Name;

/**
 * The properties {@code seckill.*}.
 *
 * @param way how users are kept from buying twice
 * @param waiting how long a request waits for the lock of its user, before it is answered that the
 *     shop is busy with another one of theirs
 * @param stock how many vouchers there are at first, in a database that has none
 * @param instance the name of this instance, which its orders carry
 */
@ConfigurationProperties("seckill")
record Seckill(
        @DefaultValue("outside") Way way,
        @Name("wait") @DefaultValue("150ms") Duration waiting,
        @DefaultValue("100") int stock,
        @DefaultValue("one") String instance) {
    /** Three ways to sell; only the last is right. */
    enum Way {
        /** {@link WithoutLock}, and no constraint. */
        NONE,
        /** {@link LockInside}, and no constraint. */
        INSIDE,
        /** {@link LockOutside}, and the constraint. */
        OUTSIDE
    }
}

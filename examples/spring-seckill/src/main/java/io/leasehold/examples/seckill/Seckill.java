package io.leasehold.examples.seckill;

import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.boot.context.properties.bind.DefaultValue;

/**
 * The properties {@code seckill.*}.
 *
 * @param way how users are kept from buying twice
 * @param stock how many vouchers there are at first, if the database is empty
 * @param instance the name of this instance, which its orders have
 */
@ConfigurationProperties("seckill")
public record Seckill(
        @DefaultValue("outside") Way way,
        @DefaultValue("100") int stock,
        @DefaultValue("one") String instance) {
    /** Three ways to sell; only the last is right. */
    public enum Way {
        /** {@link WithoutLock} */
        NONE,
        /** {@link LockInside} */
        INSIDE,
        /** {@link LockOutside} */
        OUTSIDE
    }
}

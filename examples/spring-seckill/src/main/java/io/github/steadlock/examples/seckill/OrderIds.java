package io.github.steadlock.examples.seckill;

import java.time.Instant;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;

/**
 * Ids of orders: 43 bits of milliseconds since 2025, then 20 bits of a sequence of the database.
 *
 * <p>Ids rise with time, so new entries are added at the end of the index. An id does not show how
 * many orders exist. All instances share the sequence, so no instance needs a number in its ids. If
 * a clock is set back, an id can only repeat when a million orders are made in the repeated time.
 */
@Component
class OrderIds {
    private static final long EPOCH = Instant.parse("2025-01-01T00:00:00Z").toEpochMilli();
    private static final int SEQUENCE_BITS = 20;

    private final JdbcClient database;

    OrderIds(JdbcClient database) {
        this.database = database;
    }

    long next() {
        long number = database.sql("SELECT nextval('order_number')").query(Long.class).single();
        long millis = System.currentTimeMillis() - EPOCH;
        return millis << SEQUENCE_BITS | number & (1L << SEQUENCE_BITS) - 1;
    }
}

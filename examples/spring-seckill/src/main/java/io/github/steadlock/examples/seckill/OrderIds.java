package io.github.steadlock.examples.seckill;

import java.time.Instant;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;

/**
 * Ids of orders: 43 bits of milliseconds since 2025, then 20 bits of a sequence of the database.
 *
 * <p>They rise with time, so the index grows at its end, and say nothing of how many orders there
 * are. The sequence is common to all instances, so none needs a number of its own, and a clock that
 * is set back makes no id twice unless a million orders fall into that same time.
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

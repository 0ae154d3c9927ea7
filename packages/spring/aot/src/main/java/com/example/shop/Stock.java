package com.example.shop;

import io.github.steadlock.Lease;
import io.github.steadlock.spring.CommitGuard;
import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.Waiting;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.r2dbc.core.DatabaseClient;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;
import org.springframework.transaction.reactive.TransactionalOperator;
import reactor.core.publisher.Mono;

/** Transactions inside a lock, on a table in each of the two databases. */
@Service
public class Stock {
    private static final String SELL = "UPDATE stock SET sold = sold + 1";

    private final JdbcTemplate jdbc;
    private final DatabaseClient database;
    private final TransactionalOperator operator;

    public Stock(JdbcTemplate jdbc, DatabaseClient database, TransactionalOperator operator) {
        this.jdbc = jdbc;
        this.database = database;
        this.operator = operator;
    }

    @DistributedLock(name = "'stock'")
    @Transactional
    public void sell() {
        jdbc.update(SELL);
    }

    @DistributedLock(name = "'stock'", lease = "100ms")
    @Transactional
    public void sellTooLate() {
        jdbc.update(SELL);
        awaitEnd(CurrentLease.get());
    }

    @Transactional
    public void sellWithin(Lease lease) {
        CommitGuard.requireValid(lease);
        jdbc.update(SELL);
        awaitEnd(lease);
    }

    @DistributedLock(name = "'stock'")
    @Transactional("reactive")
    public Mono<Long> sellReactively(Mono<Void> pause) {
        return sold().delayUntil(rows -> pause);
    }

    @DistributedLock(name = "'stock'")
    public Mono<Long> sellByOperator(Mono<Void> pause) {
        return CurrentLease.reactive()
                .flatMap(CommitGuard::requireValidReactive)
                .then(sold())
                .delayUntil(rows -> pause)
                .as(operator::transactional);
    }

    int number() {
        return jdbc.queryForObject("SELECT sold FROM stock", Integer.class);
    }

    int numberReactively() {
        return database.sql("SELECT sold FROM stock")
                .map(row -> row.get(0, Integer.class))
                .one()
                .block();
    }

    /** Releases the lease, so that it is not valid any more, as if it had been lost. */
    static Mono<Void> release() {
        return CurrentLease.reactive()
                .flatMap(lease -> Mono.fromCompletionStage(lease::releaseAsync))
                .then();
    }

    private Mono<Long> sold() {
        return database.sql(SELL).fetch().rowsUpdated();
    }

    private static void awaitEnd(Lease lease) {
        Waiting.until("the lease has ended", () -> !lease.isValid());
    }
}

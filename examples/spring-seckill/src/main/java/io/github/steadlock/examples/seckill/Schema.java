package io.github.steadlock.examples.seckill;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.examples.seckill.Seckill.Variant;
import jakarta.annotation.PostConstruct;
import javax.sql.DataSource;
import org.springframework.core.io.ClassPathResource;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.jdbc.datasource.init.ResourceDatabasePopulator;
import org.springframework.stereotype.Component;

/** Creates the tables before the first sale, and the unique index if the variant has it. */
@Component
class Schema {
    private final SteadlockClient locks;
    private final DataSource source;
    private final JdbcClient database;
    private final Seckill seckill;

    Schema(SteadlockClient locks, DataSource source, JdbcClient database, Seckill seckill) {
        this.locks = locks;
        this.source = source;
        this.database = database;
        this.seckill = seckill;
    }

    /** Holds a lock, because `CREATE … IF NOT EXISTS` can fail if two instances run it at once. */
    @PostConstruct
    void create() {
        locks.lock("schema")
                .withLock(
                        lease -> {
                            new ResourceDatabasePopulator(new ClassPathResource("tables.sql"))
                                    .execute(source);
                            database.sql(
                                            "INSERT INTO vouchers (id, name, first_stock, stock) VALUES (1, :name, :stock, :stock)"
                                                    + " ON CONFLICT DO NOTHING")
                                    .param("name", "Dinner for two, half price")
                                    .param("stock", seckill.stock())
                                    .update();
                            database.sql(
                                            seckill.variant() == Variant.OUTSIDE
                                                    ? "CREATE UNIQUE INDEX IF NOT EXISTS one_order_each ON orders (user_id, voucher_id)"
                                                    : "DROP INDEX IF EXISTS one_order_each")
                                    .update();
                            return null;
                        });
    }
}

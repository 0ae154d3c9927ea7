package io.github.steadlock.examples.seckill;

import java.util.List;
import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Repository;

/** The vouchers and the orders in the database. */
@Repository
class Orders {
    private final JdbcClient database;

    Orders(JdbcClient database) {
        this.database = database;
    }

    boolean has(long userId, long voucherId) {
        return database.sql("SELECT count(*) FROM orders WHERE user_id = ? AND voucher_id = ?")
                        .params(userId, voucherId)
                        .query(Long.class)
                        .single()
                > 0;
    }

    /**
     * @throws Refusal.NoSuchVoucher if there is no such voucher
     */
    long stock(long voucherId) {
        return database.sql("SELECT stock FROM vouchers WHERE id = ?")
                .param(voucherId)
                .query(Long.class)
                .optional()
                .orElseThrow(() -> new Refusal.NoSuchVoucher(voucherId));
    }

    /**
     * Reduces the stock by one. A single statement checks and changes the stock, which keeps it
     * exact with any number of buyers and without a lock.
     *
     * @throws Refusal.SoldOut if none is left
     */
    void reduceStock(long voucherId) {
        int changed =
                database.sql("UPDATE vouchers SET stock = stock - 1 WHERE id = ? AND stock > 0")
                        .param(voucherId)
                        .update();
        if (changed == 0) {
            throw new Refusal.SoldOut();
        }
    }

    /**
     * @throws Refusal.BoughtAlready if the user has an order, and the database has the constraint
     *     that detects it
     */
    void add(Order order) {
        try {
            database.sql(
                            "INSERT INTO orders (id, user_id, voucher_id, token, sold_by, sold_at)"
                                    + " VALUES (:id, :userId, :voucherId, :token, :soldBy, :soldAt)")
                    .paramSource(order)
                    .update();
        } catch (DuplicateKeyException second) {
            throw new Refusal.BoughtAlready(true);
        }
    }

    /**
     * @throws Refusal.NoSuchVoucher if there is no such voucher
     */
    Voucher voucher(long voucherId) {
        return database.sql(
                        """
                        SELECT v.id, v.name, v.first_stock, v.stock, count(o.id) AS orders,
                            count(o.id) - count(DISTINCT o.user_id) AS double_orders
                        FROM vouchers v LEFT JOIN orders o ON o.voucher_id = v.id
                        WHERE v.id = ? GROUP BY v.id, v.name, v.first_stock, v.stock
                        """)
                .param(voucherId)
                .query(Voucher.class)
                .optional()
                .orElseThrow(() -> new Refusal.NoSuchVoucher(voucherId));
    }

    /** Returns the latest orders, the last one first. */
    List<Order> latest(long voucherId, int limit) {
        return database.sql("SELECT * FROM orders WHERE voucher_id = ? ORDER BY id DESC LIMIT ?")
                .params(voucherId, limit)
                .query(Order.class)
                .list();
    }
}

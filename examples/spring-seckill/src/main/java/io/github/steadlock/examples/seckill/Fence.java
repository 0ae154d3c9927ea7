package io.github.steadlock.examples.seckill;

import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;

/**
 * Refuses a sale whose user's lock has gone to a later holder: one that was paused for longer than
 * its lease.
 *
 * <p>There is one row for each user, with the highest fencing token seen, because the lock is the
 * user's: tokens of different names do not compare, so the stock, which all users change, cannot be
 * fenced by them. The condition of its update protects it.
 */
@Component
class Fence {
    private final JdbcClient database;

    Fence(JdbcClient database) {
        this.database = database;
    }

    /**
     * The first step of the transaction, which keeps the user's row until its end.
     *
     * @throws Refusal.Superseded if this token or a higher one was here before
     */
    void pass(long userId, long token) {
        int passed =
                database.sql(
                                "UPDATE user_fences SET token = :token WHERE user_id = :userId AND"
                                        + " token < :token")
                        .param("token", token)
                        .param("userId", userId)
                        .update();
        if (passed == 1) {
            return;
        }
        try {
            database.sql("INSERT INTO user_fences (user_id, token) VALUES (?, ?)")
                    .params(userId, token)
                    .update();
        } catch (DuplicateKeyException passedBefore) {
            throw new Refusal.Superseded();
        }
    }
}

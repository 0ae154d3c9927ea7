package io.github.steadlock.examples.seckill;

import org.springframework.dao.DuplicateKeyException;
import org.springframework.jdbc.core.simple.JdbcClient;
import org.springframework.stereotype.Component;

/**
 * Refuses a sale if a later holder of the user's lock has sold before. This happens if the sale was
 * paused for longer than its lease.
 *
 * <p>Each user has a row with the highest fencing token seen, because the lock belongs to the user.
 * Tokens of different lock names cannot be compared. The tokens therefore cannot fence the stock,
 * which all users change: the condition in its update statement protects the stock.
 */
@Component
class Fence {
    private final JdbcClient database;

    Fence(JdbcClient database) {
        this.database = database;
    }

    /**
     * Stores the token as the highest of the user. This must be the first step of the transaction,
     * because the update locks the user's row until the end of the transaction.
     *
     * @throws Refusal.Superseded if this token or a higher one was seen before
     */
    void check(long userId, long token) {
        int updated =
                database.sql(
                                "UPDATE user_fences SET token = :token WHERE user_id = :userId AND"
                                        + " token < :token")
                        .param("token", token)
                        .param("userId", userId)
                        .update();
        if (updated == 1) {
            return;
        }
        try {
            database.sql("INSERT INTO user_fences (user_id, token) VALUES (?, ?)")
                    .params(userId, token)
                    .update();
        } catch (DuplicateKeyException hasHigherToken) {
            throw new Refusal.Superseded();
        }
    }
}

package io.leasehold.examples.seckill;

import io.leasehold.LeaseholdClient;
import io.leasehold.LockOptions;
import java.time.Duration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

/**
 * Wrong: the lock inside the transaction. The lock is released when {@code buy} returns, and only
 * then is the order committed. A second request of the user gets the lock in between, sees no
 * order, and buys too.
 */
@Service
@ConditionalOnProperty(name = "seckill.way", havingValue = "inside")
class LockInside implements Shop {
    private final Sale sale;
    private final LeaseholdClient locks;

    LockInside(Sale sale, LeaseholdClient locks) {
        this.sale = sale;
        this.locks = locks;
    }

    @Override
    @Transactional
    public Order buy(long userId, long voucherId) {
        var lock =
                locks.lock("user:" + userId, LockOptions.DEFAULT.withWait(Duration.ofMillis(20)));
        lock.lock();
        try {
            return sale.make(userId, voucherId, null);
        } finally {
            lock.unlock();
        }
    }
}

package io.github.steadlock.examples.seckill;

import io.github.steadlock.LockOptions;
import io.github.steadlock.SteadlockClient;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

/**
 * Wrong: the lock inside the transaction. The lock is released before {@code buy} returns, and the
 * order is committed after that. Another request of the same user can acquire the lock in between.
 * The request then sees no order, and buys too.
 */
@Service
@ConditionalOnProperty(name = "seckill.variant", havingValue = "inside")
class LockInside implements Shop {
    private final Sale sale;
    private final SteadlockClient locks;
    private final Seckill seckill;

    LockInside(Sale sale, SteadlockClient locks, Seckill seckill) {
        this.sale = sale;
        this.locks = locks;
        this.seckill = seckill;
    }

    @Override
    @Transactional
    public Order buy(long userId, long voucherId) {
        var lock = locks.lock("user:" + userId, LockOptions.DEFAULT.withWait(seckill.waiting()));
        lock.lock();
        try {
            return sale.make(userId, voucherId, null);
        } finally {
            lock.unlock();
        }
    }
}

package io.github.steadlock.examples.seckill;

import io.github.steadlock.spring.CurrentLease;
import io.github.steadlock.spring.DistributedLock;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

/**
 * Right: the lock outside the transaction. The lock is acquired before the transaction begins, and
 * released after the commit, when every transaction can see the order.
 */
@Service
@ConditionalOnProperty(name = "seckill.variant", havingValue = "outside", matchIfMissing = true)
class LockOutside implements Shop {
    private final Sale sale;

    LockOutside(Sale sale) {
        this.sale = sale;
    }

    @Override
    @DistributedLock(
            name = "'user:' + #userId",
            waitTime = "${seckill.wait}",
            reason = "a user buys a voucher once")
    @Transactional
    public Order buy(long userId, long voucherId) {
        return sale.make(userId, voucherId, CurrentLease.get().getToken());
    }
}

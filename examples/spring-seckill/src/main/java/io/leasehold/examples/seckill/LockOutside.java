package io.leasehold.examples.seckill;

import io.leasehold.LeaseholdClient;
import io.leasehold.LockOptions;
import java.time.Duration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.stereotype.Service;
import org.springframework.transaction.support.TransactionTemplate;

/** Right: the lock outside the transaction. It is released when everybody can see the order. */
@Service
@ConditionalOnProperty(name = "seckill.way", havingValue = "outside", matchIfMissing = true)
class LockOutside implements Shop {
    private final Sale sale;
    private final LeaseholdClient locks;
    private final TransactionTemplate transaction;

    LockOutside(Sale sale, LeaseholdClient locks, TransactionTemplate transaction) {
        this.sale = sale;
        this.locks = locks;
        this.transaction = transaction;
    }

    @Override
    public Order buy(long userId, long voucherId) {
        return locks.lock("user:" + userId, LockOptions.DEFAULT.withWait(Duration.ofMillis(20)))
                .withLock(
                        lease -> {
                            return transaction.execute(
                                    status -> sale.make(userId, voucherId, lease.getToken()));
                        });
    }
}

package io.github.steadlock.examples.seckill;

import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.stereotype.Service;
import org.springframework.transaction.annotation.Transactional;

/**
 * Wrong: no lock. Two requests of a user both look for an order before either has made one, so both
 * buy.
 */
@Service
@ConditionalOnProperty(name = "seckill.variant", havingValue = "none")
class WithoutLock implements Shop {
    private final Sale sale;

    WithoutLock(Sale sale) {
        this.sale = sale;
    }

    @Override
    @Transactional
    public Order buy(long userId, long voucherId) {
        return sale.make(userId, voucherId, null);
    }
}

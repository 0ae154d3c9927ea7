package io.github.steadlock.examples.seckill;

import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.concurrent.ThreadLocalRandom;
import org.springframework.stereotype.Component;

/** The steps of a sale, which are the same in each {@link Shop}. Must run inside a transaction. */
@Component
class Sale {
    private final Orders orders;
    private final OrderIds ids;
    private final Fence fence;
    private final Seckill seckill;

    Sale(Orders orders, OrderIds ids, Fence fence, Seckill seckill) {
        this.orders = orders;
        this.ids = ids;
        this.fence = fence;
        this.seckill = seckill;
    }

    /**
     * @param token the fencing token of the user's lock, or null for a sale without fencing
     * @throws Refusal if the user gets no voucher
     */
    Order make(long userId, long voucherId, Long token) {
        if (token != null) {
            fence.check(userId, token);
        }
        if (orders.has(userId, voucherId)) {
            throw new Refusal.BoughtAlready(false);
        }
        if (orders.stock(voucherId) == 0) {
            throw new Refusal.SoldOut();
        }
        pay();
        // Databases store times in microseconds.
        var now = OffsetDateTime.now(ZoneOffset.UTC).truncatedTo(ChronoUnit.MICROS);
        var order = new Order(ids.next(), userId, voucherId, token, seckill.instance(), now);
        orders.add(order);
        // The last step, because it locks the row of the voucher for all other buyers until the
        // commit.
        orders.reduceStock(voucherId);
        return order;
    }

    /**
     * Simulates a reservation at a payment provider, which takes 5 to 20 ms. The reservation would
     * expire if the sale fails.
     */
    private static void pay() {
        try {
            Thread.sleep(ThreadLocalRandom.current().nextLong(5, 21));
        } catch (InterruptedException stop) {
            Thread.currentThread().interrupt();
            throw new IllegalStateException("interrupted while paying", stop);
        }
    }
}

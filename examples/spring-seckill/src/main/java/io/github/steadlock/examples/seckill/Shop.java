package io.github.steadlock.examples.seckill;

/**
 * Sells a voucher to a user. The property {@code seckill.way} decides which of its three forms is
 * there.
 */
interface Shop {
    /**
     * @return the order, committed
     * @throws Refusal if the user gets none
     * @throws io.github.steadlock.LockTimeoutException if another request of the user is being
     *     served
     */
    Order buy(long userId, long voucherId);
}

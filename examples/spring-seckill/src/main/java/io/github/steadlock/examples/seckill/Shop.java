package io.github.steadlock.examples.seckill;

/**
 * Sells a voucher to a user. The property {@code seckill.variant} selects one of the three
 * implementations.
 */
interface Shop {
    /**
     * @return the committed order
     * @throws Refusal if the user gets no voucher
     * @throws io.github.steadlock.LockTimeoutException if another request of the user is being
     *     served
     */
    Order buy(long userId, long voucherId);
}

package io.github.steadlock.examples.seckill;

/**
 * A voucher that is sold.
 *
 * @param firstStock how many there were
 * @param stock how many are left
 * @param orders how many orders there are
 * @param doubleOrders how many of these are of a user who had one
 */
record Voucher(long id, String name, long firstStock, long stock, long orders, long doubleOrders) {}

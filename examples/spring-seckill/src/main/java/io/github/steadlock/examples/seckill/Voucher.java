package io.github.steadlock.examples.seckill;

/**
 * A voucher that the shop sells.
 *
 * @param firstStock the number of vouchers at the start
 * @param stock the number of vouchers left
 * @param orders the number of orders
 * @param doubleOrders the number of orders beyond the first of each user
 */
record Voucher(long id, String name, long firstStock, long stock, long orders, long doubleOrders) {}

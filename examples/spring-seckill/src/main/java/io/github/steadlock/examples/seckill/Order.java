package io.github.steadlock.examples.seckill;

import java.time.OffsetDateTime;

/**
 * A voucher that was sold.
 *
 * @param id rises with time; see {@link OrderIds}
 * @param token the fencing token of the user's lock, or null if there was none
 * @param soldBy the instance that sold it
 */
record Order(
        long id, long userId, long voucherId, Long token, String soldBy, OffsetDateTime soldAt) {}

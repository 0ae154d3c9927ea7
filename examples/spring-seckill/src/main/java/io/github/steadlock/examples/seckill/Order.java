package io.github.steadlock.examples.seckill;

import java.time.OffsetDateTime;

/**
 * The sale of a voucher to a user.
 *
 * @param id a number that rises with time; see {@link OrderIds}
 * @param token the fencing token of the user's lock, or null if there was none
 * @param soldBy the instance that sold it
 */
record Order(
        long id, long userId, long voucherId, Long token, String soldBy, OffsetDateTime soldAt) {}

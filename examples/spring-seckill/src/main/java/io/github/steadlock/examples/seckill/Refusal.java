package io.github.steadlock.examples.seckill;

/** The reason why a user gets no voucher. A refusal rolls the transaction back. */
abstract class Refusal extends RuntimeException {
    private Refusal(String message) {
        super(message);
    }

    /** The user has an order of this voucher. */
    static final class BoughtAlready extends Refusal {
        private final boolean foundLate;

        /**
         * @param foundLate whether only the constraint of the database found the other order
         */
        BoughtAlready(boolean foundLate) {
            super("you have bought this voucher already");
            this.foundLate = foundLate;
        }

        boolean foundLate() {
            return foundLate;
        }
    }

    /** No voucher is left. */
    static final class SoldOut extends Refusal {
        SoldOut() {
            super("no voucher is left");
        }
    }

    /**
     * A later holder of the user's lock was served first, because this sale was paused for longer
     * than its lease.
     */
    static final class Superseded extends Refusal {
        Superseded() {
            super("a later request of yours was served before this one");
        }
    }

    /** There is no such voucher. */
    static final class NoSuchVoucher extends Refusal {
        NoSuchVoucher(long voucherId) {
            super("there is no voucher " + voucherId);
        }
    }
}

package io.leasehold.spring.aop;

import io.leasehold.LockOptions;

/**
 * The lease of the same lock by which an enclosing call runs, or null if there is none.
 *
 * @param lease the innermost one that can be re-entered
 */
record Enclosing(HeldLease lease) {
    /**
     * Finds it among those that are held.
     *
     * @throws IllegalStateException if the call would wait for its own caller
     */
    static Enclosing of(LockedMethod method, LockTarget target, Iterable<HeldLease> held) {
        for (HeldLease one : held) {
            // What a thread owns the library knows, with its own refusals; several locks as one it
            // re-enters.
            boolean isSame = one.isOfThread() && one.target().equals(target);
            switch (isSame ? LockTarget.Relation.REENTRANT : target.to(one.target())) {
                case REENTRANT -> {
                    return new Enclosing(one);
                }
                case KEPT_OUT -> {
                    if (!one.isOfThread()) {
                        throw new IllegalStateException(
                                method.where
                                        + ": an enclosing call holds "
                                        + one.target().kind()
                                        + " \""
                                        + one.target().shown()
                                        + "\", so that acquiring "
                                        + target.kind()
                                        + " \""
                                        + target.shown()
                                        + "\" would wait for itself");
                    }
                }
                case INDEPENDENT -> {}
            }
        }
        return new Enclosing(null);
    }

    boolean isReentry() {
        return lease != null;
    }

    /**
     * The method's options. @param isOfThread whether a thread asks, which the library knows again
     * by itself
     */
    LockOptions options(LockedMethod method, boolean isOfThread) {
        boolean isKnown = lease == null || (isOfThread && lease.isOfThread());
        return isKnown ? method.options : method.options.within(lease.lease());
    }
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.LockOptions;
import io.github.steadlock.spring.LockKind;

/**
 * The lease of the same lock that an enclosing call holds.
 *
 * @param lease the innermost lease that can be re-entered, or null if there is none
 */
record EnclosingLease(HeldLease lease) {
    /**
     * Finds the enclosing lease among the held leases.
     *
     * @throws IllegalStateException if the call would wait for its own caller
     */
    static EnclosingLease of(LockedMethod method, LockTarget target, Iterable<HeldLease> held) {
        checkPermits(method, target, held);
        for (HeldLease one : held) {
            boolean isSame =
                    one.isOfThread() && target.isReenteredByThread() && one.target().equals(target);
            switch (isSame ? LockTarget.Relation.REENTRANT : target.to(one.target())) {
                case REENTRANT -> {
                    return new EnclosingLease(one);
                }
                case EXCLUDED -> {
                    // If a thread holds the lease and can re-enter the wanted lock, the client
                    // itself refuses an acquisition that would wait for itself.
                    if (!one.isOfThread() || !target.isReenteredByThread()) {
                        throw refusal(method, target, one.target());
                    }
                }
                case INDEPENDENT -> {}
            }
        }
        return new EnclosingLease(null);
    }

    private static IllegalStateException refusal(
            LockedMethod method, LockTarget target, LockTarget held) {
        return new IllegalStateException(
                "%s: an enclosing call holds %s \"%s\", so that acquiring %s \"%s\" would wait for itself"
                        .formatted(
                                method.where,
                                held.kind(),
                                held.displayName(),
                                target.kind(),
                                target.displayName()));
    }

    /**
     * Throws if enclosing calls hold all permits of a semaphore: each call acquires a permit, and
     * the enclosing calls release none before they end.
     */
    private static void checkPermits(
            LockedMethod method, LockTarget target, Iterable<HeldLease> held) {
        if (target.kind() != LockKind.SEMAPHORE) {
            return;
        }
        int permits = 0;
        for (HeldLease one : held) {
            if (one.target().equals(target) && one.lease().isValid()) {
                permits++;
            }
        }
        if (permits >= target.limit()) {
            throw new IllegalStateException(
                    method.where
                            + ": enclosing calls hold all "
                            + target.limit()
                            + " permits of semaphore \""
                            + target.displayName()
                            + "\", so that acquiring another would wait for itself");
        }
    }

    boolean isReentry() {
        return lease != null;
    }

    /**
     * Returns the options of the method, which re-enter the enclosing lease if needed.
     *
     * @param isOfThread whether a thread acquires the lock; the library recognizes a thread itself,
     *     and any other caller by the lease that it passes
     */
    LockOptions options(LockedMethod method, boolean isOfThread) {
        boolean isKnown = lease == null || (isOfThread && lease.isOfThread());
        return isKnown ? method.options : method.options.within(lease.lease());
    }
}

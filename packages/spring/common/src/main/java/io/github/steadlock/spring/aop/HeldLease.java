package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;

/**
 * A lease by which an annotated method runs.
 *
 * @param isOfThread whether a thread acquired it, which the library knows again
 */
record HeldLease(LockTarget target, Lease lease, boolean isOfThread) {
    /**
     * Throws {@link io.github.steadlock.spring.CommitRefusedException} if it cannot be relied on
     * any more.
     */
    void requireValid() {
        LeaseCheck.requireValid(target.shown(), lease);
    }
}

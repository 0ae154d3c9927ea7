package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;

/**
 * The lease of a running annotated method.
 *
 * @param isOfThread whether a thread acquired the lease; the library recognizes a thread itself,
 *     and any other caller by the lease that it passes
 */
record HeldLease(LockTarget target, Lease lease, boolean isOfThread) {
    /**
     * Throws {@link io.github.steadlock.spring.CommitRefusedException} if the lease is not valid
     * any more.
     */
    void requireValid() {
        LeaseCheck.requireValid(target.displayName(), lease);
    }
}

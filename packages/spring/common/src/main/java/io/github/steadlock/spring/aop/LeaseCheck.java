package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import io.github.steadlock.spring.CommitRefusedException;

/**
 * The check of a lease before a commit. A class of its own, because its exception needs spring-tx.
 */
final class LeaseCheck {
    private LeaseCheck() {}

    static void requireValid(String lockName, Lease lease) {
        if (!lease.isValid()) {
            throw new CommitRefusedException(lockName, lease.getLostReason());
        }
    }
}

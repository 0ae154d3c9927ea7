package io.github.steadlock.spring;

import io.github.steadlock.Lease;
import io.github.steadlock.spring.aop.ReactiveTransaction;
import io.github.steadlock.spring.aop.ThreadTransaction;
import reactor.core.publisher.Mono;

/**
 * Binds a transaction to a lease: if the lease is not valid any more just before the commit, the
 * transaction is rolled back with {@link CommitRefusedException}. Leases of {@link DistributedLock}
 * have that already; this is for those that a program acquires itself.
 *
 * <p>It compares the lease's deadline with the clock and asks no server. It cannot stop a pause
 * between that look and the commit, nor what is written outside the transaction: for these the
 * resource must check the fencing token.
 */
public final class CommitGuard {
    private CommitGuard() {}

    /**
     * Has the calling thread's transaction roll back unless {@code lease} is valid before the
     * commit.
     *
     * @throws IllegalStateException if the thread has no transaction
     */
    public static void requireValid(Lease lease) {
        if (!ThreadTransaction.isActive()) {
            throw new IllegalStateException(
                    "no transaction is active on this thread: call requireValid after it has begun");
        }
        ThreadTransaction.requireValid(lease);
    }

    /**
     * Has the subscriber's transaction roll back unless {@code lease} is valid before the commit. A
     * {@code TransactionalOperator} within a method with {@link DistributedLock} needs it, too,
     * with the lease of {@link CurrentLease#reactive()}.
     *
     * @return completes once that is arranged; fails with {@link IllegalStateException} if the
     *     subscriber has no transaction
     */
    public static Mono<Void> requireValidReactive(Lease lease) {
        return ReactiveTransaction.current()
                .switchIfEmpty(
                        Mono.error(
                                () ->
                                        new IllegalStateException(
                                                "no transaction is active here: subscribe to"
                                                        + " requireValidReactive within it")))
                .doOnNext(transaction -> transaction.requireValid(lease))
                .then();
    }
}

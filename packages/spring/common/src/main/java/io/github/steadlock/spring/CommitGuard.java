package io.github.steadlock.spring;

import io.github.steadlock.Lease;
import io.github.steadlock.spring.aop.ReactiveTransaction;
import io.github.steadlock.spring.aop.ThreadTransaction;
import reactor.core.publisher.Mono;

/**
 * A guard that binds a transaction to a lease: if the lease is not valid any more just before the
 * commit, the transaction is rolled back with {@link CommitRefusedException}. Methods with {@link
 * DistributedLock} do this already. Use this class for leases that the program acquires itself.
 *
 * <p>The guard compares the lease's deadline with the clock and makes no server call. It cannot
 * detect a pause between this check and the commit, and it does not cover writes outside the
 * transaction. For both, the resource must check the fencing token.
 */
public final class CommitGuard {
    private CommitGuard() {}

    /**
     * Makes the calling thread's transaction roll back unless {@code lease} is valid before the
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
     * Makes the subscriber's transaction roll back unless {@code lease} is valid before the commit.
     * A {@code TransactionalOperator} inside a method with {@link DistributedLock} needs this call
     * too, with the lease of {@link CurrentLease#reactive()}.
     *
     * @return a publisher that completes once the check is registered, and fails with {@link
     *     IllegalStateException} if the subscriber has no transaction
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

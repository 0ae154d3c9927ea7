package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import java.util.function.Consumer;
import org.springframework.core.Ordered;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * The calling thread's transaction. Public for {@link io.github.steadlock.spring.CommitGuard},
 * which programs should use instead.
 */
public final class ThreadTransaction {
    private ThreadTransaction() {}

    /** Returns whether the thread has a transaction that accepts callbacks. */
    public static boolean isActive() {
        return TransactionSynchronizationManager.isActualTransactionActive()
                && TransactionSynchronizationManager.isSynchronizationActive();
    }

    /** Makes the transaction roll back unless {@code lease} is valid before the commit. */
    public static void requireValid(Lease lease) {
        TransactionSynchronizationManager.registerSynchronization(
                new Last() {
                    @Override
                    public void beforeCommit(boolean readOnly) {
                        LeaseCheck.requireValid(lease.getName(), lease);
                    }
                });
    }

    /** Runs {@code action} after the transaction has ended, with true if it was rolled back. */
    static void afterCompletion(Consumer<Boolean> action) {
        TransactionSynchronizationManager.registerSynchronization(
                new Last() {
                    @Override
                    public void afterCompletion(int status) {
                        action.accept(status == STATUS_ROLLED_BACK);
                    }
                });
    }

    /** A callback that runs after all others, because these may still write. */
    private interface Last extends TransactionSynchronization {
        @Override
        default int getOrder() {
            return Ordered.LOWEST_PRECEDENCE;
        }
    }
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import java.util.function.Consumer;
import org.springframework.core.Ordered;
import org.springframework.transaction.support.TransactionSynchronization;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * The calling thread's transaction. For {@link io.github.steadlock.spring.CommitGuard}; programs
 * use that.
 */
public final class ThreadTransaction {
    private ThreadTransaction() {}

    /** Whether there is one that can be listened to. */
    public static boolean isActive() {
        return TransactionSynchronizationManager.isActualTransactionActive()
                && TransactionSynchronizationManager.isSynchronizationActive();
    }

    /** Has it roll back unless {@code lease} is valid before the commit. */
    public static void requireValid(Lease lease) {
        TransactionSynchronizationManager.registerSynchronization(
                new Last() {
                    @Override
                    public void beforeCommit(boolean readOnly) {
                        LeaseCheck.requireValid(lease.getName(), lease);
                    }
                });
    }

    /** Runs {@code action} once it has ended, with whether it was rolled back. */
    static void afterCompletion(Consumer<Boolean> action) {
        TransactionSynchronizationManager.registerSynchronization(
                new Last() {
                    @Override
                    public void afterCompletion(int status) {
                        action.accept(status == STATUS_ROLLED_BACK);
                    }
                });
    }

    /** After all others, which may write yet. */
    private interface Last extends TransactionSynchronization {
        @Override
        default int getOrder() {
            return Ordered.LOWEST_PRECEDENCE;
        }
    }
}

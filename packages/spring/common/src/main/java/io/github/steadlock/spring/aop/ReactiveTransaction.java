package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import java.util.function.Supplier;
import org.springframework.transaction.NoTransactionException;
import org.springframework.transaction.reactive.TransactionSynchronization;
import org.springframework.transaction.reactive.TransactionSynchronizationManager;
import reactor.core.publisher.Mono;

/**
 * A subscriber's transaction. Public for {@link io.github.steadlock.spring.CommitGuard}, which
 * programs should use instead.
 */
public final class ReactiveTransaction {
    private final TransactionSynchronizationManager manager;

    private ReactiveTransaction(TransactionSynchronizationManager manager) {
        this.manager = manager;
    }

    /** Returns the subscriber's transaction, or empty if there is none that accepts callbacks. */
    public static Mono<ReactiveTransaction> current() {
        return TransactionSynchronizationManager.forCurrentTransaction()
                .onErrorResume(NoTransactionException.class, none -> Mono.empty())
                .filter(it -> it.isActualTransactionActive() && it.isSynchronizationActive())
                .map(ReactiveTransaction::new);
    }

    /** Makes the transaction roll back unless {@code lease} is valid before the commit. */
    public void requireValid(Lease lease) {
        beforeCommit(() -> LeaseCheck.requireValid(lease.getName(), lease));
    }

    /** Makes the transaction roll back if {@code check} throws before the commit. */
    void beforeCommit(Runnable check) {
        manager.registerSynchronization(
                new TransactionSynchronization() {
                    @Override
                    public Mono<Void> beforeCommit(boolean readOnly) {
                        return Mono.fromRunnable(check);
                    }
                });
    }

    /** Runs {@code action} after the transaction has committed or rolled back. */
    void afterCompletion(Supplier<Mono<Void>> action) {
        manager.registerSynchronization(
                new TransactionSynchronization() {
                    @Override
                    public Mono<Void> afterCompletion(int status) {
                        return Mono.defer(action);
                    }
                });
    }
}

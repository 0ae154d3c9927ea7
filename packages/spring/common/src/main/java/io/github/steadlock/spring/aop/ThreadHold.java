package io.github.steadlock.spring.aop;

import io.github.steadlock.LockLostException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** The hold of a blocking call, from its grant to its release. */
final class ThreadHold {
    private static final Logger LOG = LoggerFactory.getLogger(ThreadHold.class);

    private final HeldLease held;
    private final Runnable leave;
    private final boolean isDeferred;
    private volatile boolean isLossReported;

    /**
     * @param ended an action to run after the release
     */
    private ThreadHold(HeldLease held, boolean isDeferred, Runnable ended) {
        Runnable remove = ThreadLeases.add(held);
        this.held = held;
        this.isDeferred = isDeferred;
        this.leave =
                () -> {
                    remove.run();
                    ended.run();
                };
    }

    /**
     * Begins the hold of the calling thread. In a transaction that had begun before, the release
     * waits for the end of the transaction: others must not acquire the lock before they can read
     * what was written under it.
     */
    static ThreadHold begin(
            LockedMethod method, HeldLease held, boolean isReentry, Runnable ended) {
        boolean isDeferred =
                Present.TRANSACTIONS
                        && !isReentry
                        && method.joinsTransactions
                        && ThreadTransaction.isActive();
        var hold = new ThreadHold(held, isDeferred, ended);
        if (isDeferred) {
            ThreadTransaction.afterCompletion(
                    isRolledBack -> hold.endOfTransaction(method, isRolledBack));
            warnOnce(method);
        }
        return hold;
    }

    static void warnOnce(LockedMethod method) {
        if (method.isFirstWarning()) {
            LOG.warn(
                    "{}: a transaction had begun before the lock was acquired. The method may read what was there"
                            + " before, and the lock is held until that transaction has ended. Call it outside of the"
                            + " transaction, or let it have its own (Propagation.REQUIRES_NEW)",
                    method.where);
        }
    }

    /**
     * Ends the hold after the method has ended without an exception. Throws {@link
     * io.github.steadlock.LockLostException} if the lease was lost.
     */
    void end() {
        if (!isDeferred) {
            release();
        } else if (!held.lease().isValid()) {
            // The lease stays among the leases of the thread, so that the transaction does not
            // commit.
            isLossReported = true;
            held.lease().close();
        }
    }

    /**
     * Ends the hold after the method threw. An exception of the release becomes a suppressed
     * exception of {@code failure}.
     */
    void endAfter(Throwable failure) {
        if (!isDeferred) {
            try {
                release();
            } catch (RuntimeException second) {
                failure.addSuppressed(second);
            }
        }
    }

    private void endOfTransaction(LockedMethod method, boolean isRolledBack) {
        if (isLossReported) {
            leave.run();
            return;
        }
        try {
            release();
        } catch (LockLostException lost) {
            // After a rollback, the caller knows the reason, and nothing was written. After a
            // commit, no caller would see an exception, so the loss is logged.
            if (!isRolledBack) {
                LOG.error(
                        "{}: lock \"{}\" was lost before its transaction had committed",
                        method.where,
                        held.target().displayName(),
                        lost);
            }
        } catch (RuntimeException failed) {
            LOG.error(
                    "{}: the release of lock \"{}\" after its transaction failed",
                    method.where,
                    held.target().displayName(),
                    failed);
        }
    }

    private void release() {
        try {
            held.lease().close();
        } finally {
            leave.run();
        }
    }
}

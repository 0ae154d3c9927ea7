package io.github.steadlock.spring;

import io.github.steadlock.LostReason;
import java.util.Locale;
import org.springframework.dao.PessimisticLockingFailureException;

/**
 * A transaction was rolled back because a lease that it relies on was not valid any more just
 * before the commit. The transaction wrote nothing, so the program can retry the call.
 *
 * <p>The class is deliberately no {@code TransactionException}. If a callback before the commit
 * throws a {@code TransactionException}, a transaction manager does not roll back, and a JDBC
 * connection then commits when it is returned to its pool.
 */
public class CommitRefusedException extends PessimisticLockingFailureException {
    private static final long serialVersionUID = 1;

    private final String lockName;
    private final LostReason reason;

    /**
     * Makes the exception of a lock and the reason for the loss of its lease.
     *
     * @param reason null if the reason is not known yet
     */
    public CommitRefusedException(String lockName, LostReason reason) {
        super(
                "the transaction is rolled back: before its commit the lease of lock \""
                        + lockName
                        + "\" was not valid any more ("
                        + (reason == null
                                ? "past its deadline, or released"
                                : reason.name().toLowerCase(Locale.ROOT))
                        + "); nothing was written, so the call may be tried again");
        this.lockName = lockName;
        this.reason = reason;
    }

    /**
     * Returns the name of the lock whose lease was not valid; for a composite lock, the names of
     * all members, separated by commas.
     */
    public String getLockName() {
        return lockName;
    }

    /**
     * Returns the reason for the loss of the lease. Returns null if the deadline has just passed
     * and the client has not reported the loss yet, or if the program had released the lease.
     */
    public LostReason getReason() {
        return reason;
    }
}

package io.github.steadlock.spring;

import io.github.steadlock.LostReason;
import java.util.Locale;
import org.springframework.dao.PessimisticLockingFailureException;

/**
 * A transaction was rolled back because a lease that it relies on was not valid any more when it
 * was to be committed. Nothing of it was written, so the call may be tried again.
 *
 * <p>It is no {@code TransactionException}, on purpose: a transaction manager does not roll back
 * when one of these comes out of a callback before the commit, and a JDBC connection then commits
 * when it is returned.
 */
public class CommitRefusedException extends PessimisticLockingFailureException {
    private static final long serialVersionUID = 1;

    private final String lockName;
    private final LostReason reason;

    /**
     * With the lock and why its lease was lost.
     *
     * @param reason null if that is not known yet
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
     * The lock whose lease was not valid; of several locks as one, all names with commas between
     * them.
     */
    public String getLockName() {
        return lockName;
    }

    /**
     * Why the lease was lost, or null if its deadline has just passed and the loss was not told
     * yet, or if the program had released it.
     */
    public LostReason getReason() {
        return reason;
    }
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import io.github.steadlock.NamedLock;
import io.github.steadlock.SteadlockException;
import io.github.steadlock.spring.LockInterruptedException;
import org.aopalliance.intercept.MethodInvocation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** A call of a {@link CallShape#BLOCKING} method. The calling thread owns the lock. */
final class BlockingCall {
    private static final Logger LOG = LoggerFactory.getLogger(BlockingCall.class);

    private BlockingCall() {}

    static Object run(MethodInvocation invocation, LockedMethod method, LockReasons reasons)
            throws Throwable {
        LockTarget target = method.targetOf(invocation);
        EnclosingLease enclosing = EnclosingLease.of(method, target, ThreadLeases.all());
        NamedLock lock = target.lock(enclosing.options(method, true));
        HeldLease held;
        reasons.begin(method, target);
        try {
            held = acquire(target, lock);
        } catch (SteadlockException failure) {
            reasons.end(method, target);
            if (!method.busy.isFor(failure)) {
                throw failure;
            }
            return method.busy.of(invocation.getThis(), invocation.getArguments(), failure);
        } catch (InterruptedException interrupted) {
            reasons.end(method, target);
            throw refusal(method, target, interrupted);
        } catch (Throwable failure) {
            reasons.end(method, target);
            throw failure;
        }
        ThreadHold hold =
                ThreadHold.begin(
                        method, held, enclosing.isReentry(), () -> reasons.end(method, target));
        int levels = lock.getHoldCount();
        Object result;
        try {
            result = method.checked(invocation.proceed());
        } catch (Throwable failure) {
            warnOfLevels(method, target, lock.getHoldCount() - levels);
            hold.endAfter(failure);
            throw failure;
        }
        warnOfLevels(method, target, lock.getHoldCount() - levels);
        hold.end();
        return result;
    }

    private static HeldLease acquire(LockTarget target, NamedLock lock)
            throws InterruptedException {
        lock.lockInterruptibly();
        Lease lease = lock.getLease();
        if (lease == null) {
            // The fixed lease has already expired, and the client has forgotten it. The unlock
            // throws, because the thread holds nothing.
            lock.unlock();
            throw new IllegalStateException("lock \"" + target.displayName() + "\" has no lease");
        }
        return new HeldLease(target, lease, true);
    }

    private static void warnOfLevels(LockedMethod method, LockTarget target, int levels) {
        if (levels > 0) {
            LOG.warn(
                    "{} has acquired lock \"{}\" by a client and not released it: its thread still holds it. Call"
                            + " unlock() in a finally block",
                    method.where,
                    target.displayName());
        }
    }

    /** Returns the exception for an interrupt during the wait. */
    static Exception refusal(
            LockedMethod method, LockTarget target, InterruptedException interrupted) {
        if (method.declaresInterruption()) {
            return interrupted;
        }
        Thread.currentThread().interrupt();
        return new LockInterruptedException(
                method.where
                        + ": interrupted while it waited for lock \""
                        + target.displayName()
                        + "\"",
                interrupted);
    }
}

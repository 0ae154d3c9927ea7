package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import io.github.steadlock.NamedLock;
import io.github.steadlock.SteadlockException;
import io.github.steadlock.spring.LockInterruptedException;
import org.aopalliance.intercept.MethodInvocation;

/** A method that is done when it returns. Its thread owns the lock. */
final class BlockingCall {
    private BlockingCall() {}

    static Object run(MethodInvocation invocation, LockedMethod method, LockReasons reasons)
            throws Throwable {
        LockTarget target = method.targetOf(invocation);
        Enclosing enclosing = Enclosing.of(method, target, ThreadLeases.all());
        HeldLease held;
        reasons.begin(method, target);
        try {
            held = acquire(method, target, enclosing);
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
        Object result;
        try {
            result = invocation.proceed();
        } catch (Throwable failure) {
            hold.endAfter(failure);
            throw failure;
        }
        hold.end();
        return result;
    }

    private static HeldLease acquire(LockedMethod method, LockTarget target, Enclosing enclosing)
            throws InterruptedException {
        NamedLock lock = target.lock(enclosing.options(method, true));
        lock.lockInterruptibly();
        Lease lease = lock.getLease();
        if (lease == null) {
            // A fixed lease that lapsed since is forgotten. This says so, as the thread holds
            // nothing.
            lock.unlock();
            throw new IllegalStateException("lock \"" + target.shown() + "\" has no lease");
        }
        return new HeldLease(target, lease, true);
    }

    /** What an interrupt during the wait comes to. */
    static Exception refusal(
            LockedMethod method, LockTarget target, InterruptedException interrupted) {
        if (method.declaresInterruption()) {
            return interrupted;
        }
        Thread.currentThread().interrupt();
        return new LockInterruptedException(
                method.where + ": interrupted while it waited for lock \"" + target.shown() + "\"",
                interrupted);
    }
}

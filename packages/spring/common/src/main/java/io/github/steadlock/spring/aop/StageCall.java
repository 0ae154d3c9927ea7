package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import io.github.steadlock.SteadlockException;
import io.github.steadlock.spring.OnCancel;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.atomic.AtomicBoolean;
import org.aopalliance.intercept.MethodInvocation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * A call of a {@link CallShape#STAGE} method. The calling thread waits for the lock and begins the
 * method. The lock belongs to the stage and to no thread.
 */
final class StageCall {
    private static final Logger LOG = LoggerFactory.getLogger(StageCall.class);

    private final LockedMethod method;
    private final HeldLease held;
    private final Runnable ended;
    private final AtomicBoolean hasEnded = new AtomicBoolean();

    private StageCall(LockedMethod method, HeldLease held, Runnable ended) {
        this.method = method;
        this.held = held;
        this.ended = ended;
    }

    static Object run(MethodInvocation invocation, LockedMethod method, LockReasons reasons)
            throws Throwable {
        LockTarget target = method.targetOf(invocation);
        EnclosingLease enclosing = EnclosingLease.of(method, target, ThreadLeases.all());
        reasons.begin(method, target);
        HeldLease held;
        try {
            var request = target.lock(enclosing.options(method, false)).lockAsync();
            held = new HeldLease(target, granted(request.toCompletableFuture()), false);
        } catch (SteadlockException failure) {
            reasons.end(method, target);
            return method.busy.isFor(failure)
                    ? answer(
                            method.busy.of(
                                    invocation.getThis(), invocation.getArguments(), failure))
                    : CompletableFuture.failedFuture(failure);
        } catch (InterruptedException interrupted) {
            reasons.end(method, target);
            throw BlockingCall.refusal(method, target, interrupted);
        } catch (Throwable failure) {
            reasons.end(method, target);
            throw failure;
        }
        var call = new StageCall(method, held, () -> reasons.end(method, target));
        return call.proceed(invocation, !enclosing.isReentry());
    }

    /** Waits for the grant. An interrupt cancels the attempt, which is undone in the background. */
    static Lease granted(CompletableFuture<Lease> request) throws InterruptedException {
        try {
            return request.get();
        } catch (InterruptedException interrupted) {
            request.cancel(false);
            request.thenAccept(Lease::releaseAsync); // If the grant came first.
            throw interrupted;
        } catch (ExecutionException failed) {
            throw failed.getCause() instanceof RuntimeException cause
                    ? cause
                    : new IllegalStateException(failed);
        }
    }

    /** Returns the answer to a busy lock, or a completed stage if the answer is null. */
    private static Object answer(Object given) {
        return given == null ? CompletableFuture.completedFuture(null) : given;
    }

    private Object proceed(MethodInvocation invocation, boolean canBeDeferred) throws Throwable {
        boolean isDeferred =
                Present.TRANSACTIONS
                        && canBeDeferred
                        && method.joinsTransactions
                        && ThreadTransaction.isActive();
        Runnable leave = ThreadLeases.add(held);
        var transaction = new CompletableFuture<Void>();
        if (isDeferred) {
            ThreadTransaction.afterCompletion(
                    isRolledBack -> {
                        leave.run();
                        transaction.complete(null);
                    });
            ThreadHold.warnOnce(method);
        }
        CompletionStage<?> stage;
        try {
            stage = (CompletionStage<?>) invocation.proceed();
        } catch (Throwable failure) {
            stage = CompletableFuture.failedFuture(failure);
        } finally {
            if (!isDeferred) {
                leave.run();
            }
        }
        return resultOf(
                stage == null ? CompletableFuture.completedFuture(null) : stage,
                isDeferred ? transaction : null);
    }

    /**
     * @param transaction completes at the end of the transaction that the release waits for; null
     *     for none
     */
    private CompletableFuture<Object> resultOf(
            CompletionStage<?> stage, CompletableFuture<Void> transaction) {
        var result = new CompletableFuture<Object>();
        stage.whenComplete(
                (value, failure) -> {
                    Throwable refused = failure == null ? method.refusalOf(value) : failure;
                    end(result, value, refused, transaction);
                });
        if (method.onCancel == OnCancel.RELEASE) {
            // Ends the call if its caller cancels the future, or completes it in another way, as
            // orTimeout does. Has no effect after the method's own end.
            result.whenComplete(
                    (value, failure) -> {
                        try {
                            stage.toCompletableFuture().cancel(false);
                        } finally {
                            end(result, value, failure, transaction);
                        }
                    });
        }
        return result;
    }

    /** Ends the call. Only the first end counts, whether by the method or by its caller. */
    private void end(
            CompletableFuture<Object> result,
            Object value,
            Throwable failure,
            CompletableFuture<Void> transaction) {
        if (!hasEnded.compareAndSet(false, true)) {
            return;
        }
        if (transaction == null || !held.lease().isValid()) {
            release().whenComplete((none, second) -> settle(result, value, failure, second));
        } else {
            transaction
                    .thenCompose(none -> release())
                    .whenComplete((none, second) -> logged(second));
            settle(result, value, failure, null);
        }
    }

    /**
     * Releases the lease. Fails with {@link io.github.steadlock.LockLostException} if the lease was
     * lost.
     */
    private CompletableFuture<Void> release() {
        return held.lease()
                .releaseAsync()
                .thenRun(held.lease()::close) // Already released, so the close does not wait.
                .whenComplete((none, failure) -> ended.run())
                .toCompletableFuture();
    }

    private void settle(
            CompletableFuture<Object> result, Object value, Throwable failure, Throwable second) {
        Throwable cause = second instanceof CompletionException ? second.getCause() : second;
        boolean isCompleted;
        if (failure != null) {
            if (cause != null && cause != failure) {
                failure.addSuppressed(cause);
            }
            isCompleted = result.completeExceptionally(failure);
        } else if (cause != null) {
            isCompleted = result.completeExceptionally(cause);
        } else {
            isCompleted = result.complete(value);
        }
        if (!isCompleted) {
            logged(second); // The caller no longer waits.
        }
    }

    private void logged(Throwable failure) {
        if (failure != null) {
            LOG.error(
                    "{}: the release of lock \"{}\" failed after its caller had gone on",
                    method.where,
                    held.target().displayName(),
                    failure);
        }
    }
}

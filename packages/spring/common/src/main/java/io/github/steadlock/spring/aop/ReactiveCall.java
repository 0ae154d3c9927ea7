package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import io.github.steadlock.LockOptions;
import io.github.steadlock.NamedLock;
import io.github.steadlock.SteadlockException;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionException;
import java.util.concurrent.atomic.AtomicBoolean;
import kotlinx.coroutines.flow.Flow;
import org.aopalliance.intercept.MethodInvocation;
import org.reactivestreams.Publisher;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.aop.ProxyMethodInvocation;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;
import reactor.core.scheduler.Schedulers;
import reactor.util.context.ContextView;

/**
 * A call of a method whose result is a publisher, or of a suspend function. Each subscriber
 * acquires the lock for itself, and then the method runs for this subscriber. The lease is in the
 * subscriber's context.
 */
final class ReactiveCall {
    private static final Logger LOG = LoggerFactory.getLogger(ReactiveCall.class);

    private final ProxyMethodInvocation invocation;
    private final LockedMethod method;
    private final LockReasons reasons;

    /** Null for suspend functions, whose publishers Spring uses without conversion. */
    private final ReactiveAdapter adapter;

    private ReactiveCall(MethodInvocation invocation, LockedMethod method, LockReasons reasons) {
        this.invocation = (ProxyMethodInvocation) invocation;
        this.method = method;
        this.reasons = reasons;
        this.adapter =
                method.shape == CallShape.REACTIVE
                        ? ReactiveAdapterRegistry.getSharedInstance()
                                .getAdapter(method.result.toClass())
                        : null;
    }

    static Object run(MethodInvocation invocation, LockedMethod method, LockReasons reasons) {
        var call = new ReactiveCall(invocation, method, reasons);
        Flux<Object> all = Flux.deferContextual(call::start);
        if (call.adapter == null) {
            return method.shape == CallShape.SUSPENDING ? all.singleOrEmpty() : all;
        }
        // A single value is emitted only after the release, because singleOrEmpty waits for the
        // end.
        return call.adapter.fromPublisher(call.adapter.isMultiValue() ? all : all.singleOrEmpty());
    }

    private Flux<Object> start(ContextView context) {
        LockTarget target = method.targetOf(invocation);
        EnclosingLease enclosing = EnclosingLease.of(method, target, ContextLeases.of(context));
        NamedLock lock = target.lock(LockOptions.DEFAULT);
        reasons.begin(method, target);
        Mono<Hold> acquired =
                acquire(lock, enclosing.options(method, false))
                        .map(
                                lease ->
                                        new Hold(
                                                new HeldLease(target, lease, false),
                                                enclosing.isReentry()))
                        // Marks the failure of the lock, so that an exception of the method is
                        // never taken for it.
                        .onErrorMap(method.busy::isFor, Busy::new);
        return Flux.usingWhen(
                        acquired,
                        this::body,
                        hold -> Mono.empty(),
                        (hold, failure) -> Mono.empty(),
                        Hold::cancelled)
                .onErrorResume(Busy.class, busy -> answer(busy.getCause()))
                .doFinally(end -> reasons.end(method, target));
    }

    /** Acquires the lock. Cancelling the subscription cancels the attempt. */
    private static Mono<Lease> acquire(NamedLock lock, LockOptions options) {
        return Mono.create(
                sink -> {
                    CompletableFuture<Lease> request =
                            lock.lockAsync(options).toCompletableFuture();
                    sink.onCancel(
                            () -> {
                                request.cancel(false);
                                request.thenAccept(Lease::releaseAsync); // If the grant came first.
                            });
                    request.whenComplete(
                            (lease, failure) -> {
                                if (failure == null) {
                                    sink.success(lease);
                                } else {
                                    sink.error(causeOf(failure));
                                }
                            });
                });
    }

    private Publisher<Object> body(Hold hold) {
        return hold.joinTransaction()
                .thenMany(
                        Flux.defer(() -> proceed(hold))
                                .doOnNext(method::checked)
                                // The thread that reported the grant must not run the method,
                                // because it has further grants to report.
                                .subscribeOn(Schedulers.parallel())
                                .takeUntilOther(hold.lost())
                                .onErrorResume(hold::cancelledByLoss)
                                .contextWrite(context -> ContextLeases.with(hold.held, context)))
                .onErrorResume(hold::endAfter)
                .concatWith(Mono.defer(hold::end));
    }

    @SuppressWarnings("unchecked")
    private Publisher<Object> proceed(Hold hold) {
        Runnable leave = ThreadLeases.add(hold.held);
        try {
            Object[] arguments = invocation.getArguments();
            if (hold.coroutine != null && method.shape != CallShape.REACTIVE) {
                arguments = hold.coroutine.in(arguments);
            }
            // Each subscriber needs an invocation of its own, because an invocation passes its
            // interceptors only once.
            Object result = invocation.invocableClone(arguments).proceed();
            if (hold.coroutine != null && result instanceof Flow<?> flow) {
                result = hold.coroutine.in(flow);
            }
            return (Publisher<Object>) publisherOf(result);
        } catch (Throwable failure) {
            return Mono.error(failure);
        } finally {
            leave.run();
        }
    }

    @SuppressWarnings("unchecked")
    private Flux<Object> answer(Throwable busy) {
        try {
            Object given =
                    method.busy.of(
                            invocation.getThis(),
                            invocation.getArguments(),
                            (SteadlockException) busy);
            return Flux.from((Publisher<Object>) publisherOf(given));
        } catch (Throwable failure) {
            return Flux.error(failure);
        }
    }

    private Publisher<?> publisherOf(Object result) {
        if (result == null) {
            return Mono.empty();
        }
        return adapter == null ? (Publisher<?>) result : adapter.toPublisher(result);
    }

    private static Throwable causeOf(Throwable failure) {
        return failure instanceof CompletionException && failure.getCause() != null
                ? failure.getCause()
                : failure;
    }

    /** The hold of one subscriber, from its grant to its release. */
    private final class Hold {
        final HeldLease held;
        private final boolean isReentry;
        private final AtomicBoolean isDeferred = new AtomicBoolean();
        private final AtomicBoolean isLossReported = new AtomicBoolean();
        private final AtomicBoolean isCancelled = new AtomicBoolean();

        /** Null if kotlinx-coroutines is missing. */
        final CoroutineLease coroutine;

        Hold(HeldLease held, boolean isReentry) {
            this.held = held;
            this.isReentry = isReentry;
            this.coroutine = Present.COROUTINES ? new CoroutineLease(held) : null;
        }

        /**
         * If a transaction had begun before, postpones the release until its end, as {@link
         * ThreadHold#begin} does.
         */
        Mono<Void> joinTransaction() {
            if (!Present.TRANSACTIONS || isReentry || !method.joinsTransactions) {
                return Mono.empty();
            }
            return ReactiveTransaction.current()
                    .doOnNext(
                            transaction -> {
                                transaction.beforeCommit(held::requireValid);
                                transaction.afterCompletion(this::endOfTransaction);
                                isDeferred.set(true);
                                ThreadHold.warnOnce(method);
                            })
                    .then();
        }

        /**
         * Emits a value when the lease is lost. The value ends the body without an error, because
         * the release reports the loss.
         */
        Mono<Boolean> lost() {
            return Mono.create(
                    sink -> {
                        AutoCloseable listener =
                                held.lease()
                                        .onLost(
                                                reason -> {
                                                    isCancelled.set(true);
                                                    sink.success(true);
                                                });
                        sink.onDispose(
                                () -> {
                                    try {
                                        listener.close();
                                    } catch (Exception never) {
                                        throw new IllegalStateException(never);
                                    }
                                });
                    });
        }

        /**
         * Ignores the failure of a body that a loss has interrupted, because the release reports
         * the loss.
         */
        Mono<Object> cancelledByLoss(Throwable failure) {
            return isCancelled.get() ? Mono.empty() : Mono.error(failure);
        }

        /**
         * Ends the hold after the method has ended without an exception, or after a loss has
         * cancelled the method. The release reports a loss.
         */
        Mono<Object> end() {
            if (isDeferred.get()) {
                if (held.lease().isValid()) {
                    return Mono.empty();
                }
                isLossReported.set(true);
            }
            return release();
        }

        /**
         * Ends the hold after the method failed. An exception of the release becomes a suppressed
         * exception of {@code failure}.
         */
        Mono<Object> endAfter(Throwable failure) {
            return (isDeferred.get() ? Mono.empty() : release())
                    .onErrorResume(
                            second -> {
                                failure.addSuppressed(second);
                                return Mono.empty();
                            })
                    .then(Mono.error(failure));
        }

        /**
         * Ends the hold after the subscriber cancelled. A coroutine holds the lock until it has
         * ended.
         */
        Mono<Void> cancelled() {
            if (isDeferred.get()) {
                return Mono.empty();
            }
            return coroutine == null
                    ? endOfTransaction()
                    : coroutine.ended().then(Mono.defer(this::endOfTransaction));
        }

        private Mono<Void> endOfTransaction() {
            if (isLossReported.get()) {
                return Mono.empty();
            }
            return release()
                    .onErrorResume(
                            failed -> {
                                LOG.error(
                                        "{}: the release of lock \"{}\" failed",
                                        method.where,
                                        held.target().displayName(),
                                        failed);
                                return Mono.empty();
                            })
                    .then();
        }

        /**
         * Releases the lease. Fails with {@link io.github.steadlock.LockLostException} if the lease
         * was lost.
         */
        private Mono<Object> release() {
            Lease lease = held.lease();
            // The lease is released before the close, so the close does not wait.
            return Mono.fromFuture(
                            () -> lease.releaseAsync().thenRun(lease::close).toCompletableFuture(),
                            true)
                    .onErrorMap(ReactiveCall::causeOf)
                    .then(Mono.empty());
        }
    }

    /**
     * The marker that the lock of this call was not granted and that there is an answer for this
     * case.
     */
    private static final class Busy extends RuntimeException {
        private static final long serialVersionUID = 1;

        Busy(Throwable cause) {
            super(null, cause, false, false);
        }
    }
}

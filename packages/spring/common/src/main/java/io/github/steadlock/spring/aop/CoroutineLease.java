package io.github.steadlock.spring.aop;

import java.util.Arrays;
import kotlin.coroutines.AbstractCoroutineContextElement;
import kotlin.coroutines.Continuation;
import kotlin.coroutines.CoroutineContext;
import kotlinx.coroutines.Job;
import kotlinx.coroutines.ThreadContextElement;
import kotlinx.coroutines.flow.Flow;
import kotlinx.coroutines.flow.FlowKt;
import reactor.core.publisher.Mono;

/**
 * A context element that makes the threads of a coroutine act as the owner of its lease. It also
 * reports the end of the coroutine, because a cancelled coroutine can still run for a while. Needs
 * kotlinx-coroutines.
 */
final class CoroutineLease extends AbstractCoroutineContextElement
        implements ThreadContextElement<Runnable> {
    private static final class Key implements CoroutineContext.Key<CoroutineLease> {
        static final Key KEY = new Key();
    }

    private final HeldLease held;
    private volatile Job body;

    CoroutineLease(HeldLease held) {
        super(Key.KEY);
        this.held = held;
    }

    /**
     * Returns the arguments of a suspend function, changed so that its coroutine has this element
     * in its context.
     */
    Object[] in(Object[] arguments) {
        Object[] given = Arrays.copyOf(arguments, arguments.length);
        var caller = (Continuation<?>) arguments[arguments.length - 1];
        given[given.length - 1] = new Caller<>(caller, caller.getContext().plus(this));
        return given;
    }

    /** Returns the flow, changed so that its code has this element in its context. */
    Object in(Flow<?> flow) {
        return FlowKt.flowOn(flow, this);
    }

    /** Completes when the coroutine has ended, or at once if it never began. */
    Mono<Void> ended() {
        Job job = body;
        if (job == null) {
            return Mono.empty();
        }
        return Mono.create(
                sink ->
                        job.invokeOnCompletion(
                                failure -> {
                                    sink.success();
                                    return kotlin.Unit.INSTANCE;
                                }));
    }

    @Override
    public Runnable updateThreadContext(CoroutineContext context) {
        if (body == null) {
            body = context.get(Job.Key);
        }
        return ThreadLeases.add(held);
    }

    @Override
    public void restoreThreadContext(CoroutineContext context, Runnable leave) {
        leave.run();
    }

    /**
     * A continuation with another context. Spring reads the context of a suspend function from the
     * continuation of its caller.
     */
    private record Caller<T>(Continuation<T> caller, CoroutineContext context)
            implements Continuation<T> {
        @Override
        public CoroutineContext getContext() {
            return context;
        }

        @Override
        public void resumeWith(Object result) {
            caller.resumeWith(result);
        }
    }
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.InvalidAnnotationException;
import java.lang.reflect.Method;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Future;
import org.springframework.core.KotlinDetector;
import org.springframework.core.MethodParameter;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;

/** How a method comes to its end, which is when its lock is released. */
enum CallShape {
    /** When it returns. */
    BLOCKING,

    /** When the stage that it returns has completed. */
    STAGE,

    /** When the publisher that it returns has ended, once for each subscriber. */
    REACTIVE,

    /**
     * A suspend function: when its last continuation has run. Spring hands it to interceptors as a
     * {@code Mono}.
     */
    SUSPENDING,

    /**
     * A suspend function that gives a {@code Flow}. Spring hands it to interceptors as a {@code
     * Flux}.
     */
    SUSPENDING_FLOW;

    private static final String FLOW = "kotlinx.coroutines.flow.Flow";

    /**
     * @throws InvalidAnnotationException if its end cannot be seen
     */
    static CallShape of(String where, Method method) {
        if (KotlinDetector.isSuspendingFunction(method)) {
            if (!Present.COROUTINES || !KotlinDetector.isKotlinReflectPresent()) {
                throw new InvalidAnnotationException(
                        where
                                + " is a suspend function, which needs kotlinx-coroutines-reactor and kotlin-reflect on"
                                + " the class path; without them Spring hands on a result that has not come yet");
            }
            boolean isFlow =
                    FLOW.equals(new MethodParameter(method, -1).getParameterType().getName());
            return isFlow ? SUSPENDING_FLOW : SUSPENDING;
        }
        Class<?> type = method.getReturnType();
        if (type == CompletionStage.class || type == CompletableFuture.class) {
            return STAGE;
        }
        ReactiveAdapter adapter = ReactiveAdapterRegistry.getSharedInstance().getAdapter(type);
        if (Present.REACTOR && adapter != null && adapter.getDescriptor().isDeferred()) {
            return REACTIVE;
        }
        if (adapter != null
                || Future.class.isAssignableFrom(type)
                || CompletionStage.class.isAssignableFrom(type)
                || FLOW.equals(type.getName())
                || type.getName().equals("org.reactivestreams.Publisher")) {
            throw new InvalidAnnotationException(
                    where
                            + ": it is not seen when a "
                            + type.getName()
                            + " is done, so the lock would be released too"
                            + " early; return a CompletableFuture or a publisher that Spring knows"
                            + " (with reactor-core, and for a Flow kotlinx-coroutines-reactor, on the class path)");
        }
        return BLOCKING;
    }
}

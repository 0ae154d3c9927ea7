package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.InvalidAnnotationException;
import java.lang.reflect.Method;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CompletionStage;
import org.springframework.core.KotlinDetector;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;
import org.springframework.core.ResolvableType;

/** The way in which a method ends, which decides when its lock is released. */
enum CallShape {
    /** The method ends when it returns. */
    BLOCKING,

    /** The method ends when the stage that it returns has completed. */
    STAGE,

    /** The method ends when the publisher that it returns has ended, once for each subscriber. */
    REACTIVE,

    /**
     * A suspend function, which ends when its last continuation has run. Spring passes its result
     * to interceptors as a {@code Mono}.
     */
    SUSPENDING,

    /**
     * A suspend function that returns a {@code Flow}. Spring passes the flow to interceptors as a
     * {@code Flux}.
     */
    SUSPENDING_FLOW;

    private static final String FLOW = "kotlinx.coroutines.flow.Flow";

    /**
     * @param result the result type of the method, resolved for the class of the bean
     * @throws InvalidAnnotationException if the end of the method cannot be observed
     */
    static CallShape of(String where, Method method, ResolvableType result) {
        CallShape shape = shapeOf(where, method, result.toClass());
        boolean isLate =
                shape == BLOCKING || shape == SUSPENDING
                        ? ContinuingWork.continues(result)
                        : ContinuingWork.contentContinues(result);
        if (isLate) {
            throw new InvalidAnnotationException(
                    where
                            + ": work goes on behind a "
                            + result
                            + " when it is returned, so the lock would be released too early;"
                            + " return a CompletableFuture or a publisher that Spring knows"
                            + " (with reactor-core, and for a Flow kotlinx-coroutines-reactor, on the class path)");
        }
        return shape;
    }

    private static CallShape shapeOf(String where, Method method, Class<?> type) {
        if (KotlinDetector.isSuspendingFunction(method)) {
            if (!Present.COROUTINES || !KotlinDetector.isKotlinReflectPresent()) {
                throw new InvalidAnnotationException(
                        where
                                + " is a suspend function, which needs kotlinx-coroutines-reactor and kotlin-reflect on"
                                + " the class path; without them Spring hands on a result that has not come yet");
            }
            return FLOW.equals(type.getName()) ? SUSPENDING_FLOW : SUSPENDING;
        }
        if (type == CompletionStage.class || type == CompletableFuture.class) {
            return STAGE;
        }
        ReactiveAdapter adapter = ReactiveAdapterRegistry.getSharedInstance().getAdapter(type);
        boolean isDeferred = adapter != null && adapter.getDescriptor().isDeferred();
        return Present.REACTOR && isDeferred ? REACTIVE : BLOCKING;
    }
}

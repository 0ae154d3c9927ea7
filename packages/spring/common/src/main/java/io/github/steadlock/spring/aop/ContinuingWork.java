package io.github.steadlock.spring.aop;

import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Spliterator;
import java.util.concurrent.Callable;
import java.util.concurrent.CompletionStage;
import java.util.concurrent.Flow;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import java.util.stream.BaseStream;
import java.util.stream.Stream;
import org.springframework.core.ReactiveAdapterRegistry;
import org.springframework.core.ResolvableType;
import org.springframework.http.HttpEntity;
import org.springframework.util.ClassUtils;

/**
 * The check for results whose work continues after the method has returned and released its lock.
 */
final class ContinuingWork {
    /** Types whose work continues by itself: of the JDK, of Kotlin and of Spring's web layers. */
    private static final List<String> RUNNING_CLASSES =
            List.of(
                    Future.class.getName(),
                    CompletionStage.class.getName(),
                    Flow.Publisher.class.getName(),
                    "org.reactivestreams.Publisher",
                    "kotlinx.coroutines.flow.Flow",
                    "kotlinx.coroutines.Job",
                    "org.springframework.web.context.request.async.DeferredResult",
                    "org.springframework.web.context.request.async.WebAsyncTask",
                    "org.springframework.web.servlet.mvc.method.annotation.ResponseBodyEmitter",
                    "org.springframework.web.servlet.mvc.method.annotation.StreamingResponseBody");

    /** Types whose work the caller of the method starts, at once or later. */
    private static final List<String> LAZY_CLASSES =
            List.of(
                    BaseStream.class.getName(),
                    Iterator.class.getName(),
                    Spliterator.class.getName(),
                    Supplier.class.getName(),
                    Runnable.class.getName(),
                    "kotlin.sequences.Sequence",
                    "kotlin.Function");

    private static final String WEB_CLASS = "org.springframework.http.HttpEntity";

    /** The classes that are looked up by name. A native image must know them. */
    static final List<String> CLASSES =
            Stream.of(RUNNING_CLASSES, LAZY_CLASSES, List.of(WEB_CLASS))
                    .flatMap(List::stream)
                    .toList();

    private static final List<Class<?>> RUNNING = present(RUNNING_CLASSES);
    private static final List<Class<?>> LAZY = present(LAZY_CLASSES);
    private static final boolean WEB = Present.isPresent(WEB_CLASS);

    /**
     * The number of nested containers that are searched. It is limited, because some types contain
     * themselves.
     */
    private static final int DEPTH = 4;

    private static final ClassValue<Boolean> IS_RUNNING =
            new ClassValue<>() {
                @Override
                protected Boolean computeValue(Class<?> type) {
                    return RUNNING.stream().anyMatch(it -> it.isAssignableFrom(type))
                            || ReactiveAdapterRegistry.getSharedInstance().getAdapter(type) != null;
                }
            };

    private ContinuingWork() {}

    /**
     * Returns whether the work of a result of this type, or of its content, continues after the
     * method has returned.
     */
    static boolean continues(ResolvableType type) {
        return continues(type, DEPTH);
    }

    /**
     * Returns whether the work of the content of a stage or a publisher continues. The end of the
     * stage or the publisher itself is observed, so it does not count.
     */
    static boolean contentContinues(ResolvableType type) {
        return containsWork(type, DEPTH)
                || Stream.of(type.getGenerics()).anyMatch(it -> continues(it, DEPTH));
    }

    /**
     * Returns whether the caller of a method with this result type can start the work after the
     * method has returned.
     */
    static boolean isLazy(ResolvableType type) {
        Class<?> raw = type.toClass();
        boolean isStandardType =
                raw.getName().startsWith("java.") || raw.getName().startsWith("kotlin.");
        return isStandardType && LAZY.stream().anyMatch(it -> it.isAssignableFrom(raw));
    }

    /**
     * Returns whether the work of this result continues. For methods whose declared type does not
     * show this.
     */
    static boolean continues(Object result) {
        if (result instanceof Optional<?> optional) {
            return optional.isPresent() && continues(optional.get());
        }
        if (WEB && result instanceof HttpEntity<?> response) {
            return continues(response.getBody());
        }
        return result != null && IS_RUNNING.get(result.getClass());
    }

    private static boolean continues(ResolvableType type, int depth) {
        Class<?> raw = type.toClass();
        return raw == Callable.class || IS_RUNNING.get(raw) || containsWork(type, depth);
    }

    private static boolean containsWork(ResolvableType type, int depth) {
        if (depth == 0) {
            return false;
        }
        return Stream.of(
                        type.as(Optional.class).getGeneric(),
                        type.as(Iterable.class).getGeneric(),
                        type.as(Map.class).getGeneric(1),
                        WEB ? type.as(HttpEntity.class).getGeneric() : ResolvableType.NONE,
                        type.getComponentType())
                .filter(content -> content != ResolvableType.NONE)
                .anyMatch(content -> continues(content, depth - 1));
    }

    private static List<Class<?>> present(List<String> names) {
        return names.stream()
                .filter(Present::isPresent)
                .<Class<?>>map(
                        name ->
                                ClassUtils.resolveClassName(
                                        name, ContinuingWork.class.getClassLoader()))
                .toList();
    }
}

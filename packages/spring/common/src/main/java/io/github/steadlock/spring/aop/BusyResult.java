package io.github.steadlock.spring.aop;

import io.github.steadlock.LockTimeoutException;
import io.github.steadlock.SteadlockException;
import io.github.steadlock.UnavailableException;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import io.github.steadlock.spring.OnBusy;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalDouble;
import java.util.OptionalInt;
import java.util.OptionalLong;
import org.springframework.core.CoroutinesUtils;
import org.springframework.core.KotlinDetector;
import org.springframework.core.MethodParameter;
import org.springframework.core.ResolvableType;
import org.springframework.util.ReflectionUtils;
import reactor.core.publisher.Mono;

/** The result of a call whose lock was not granted. */
final class BusyResult {
    /** The results that stand for "nothing" instead of null, by result type. */
    private static final Map<Class<?>, Object> EMPTY =
            Map.of(
                    Optional.class, Optional.empty(),
                    OptionalInt.class, OptionalInt.empty(),
                    OptionalLong.class, OptionalLong.empty(),
                    OptionalDouble.class, OptionalDouble.empty());

    private final OnBusy onBusy;
    private final Object nothing;
    private final Method handler;

    /**
     * @throws InvalidAnnotationException if the result type of the method, or the handler, is not
     *     suitable
     */
    BusyResult(
            String where,
            DistributedLock lock,
            Method method,
            Class<?> targetClass,
            CallShape shape,
            ResolvableType result) {
        this.onBusy = lock.onBusy();
        this.nothing = nothingOf(shape, result.toClass());
        this.handler =
                lock.busyHandler().isEmpty()
                        ? null
                        : handler(where, lock, method, targetClass, result);
        if (onBusy == OnBusy.SKIP) {
            checkSkip(where, method, shape);
        }
    }

    /** Returns whether this answer replaces the exception {@code failure}. */
    boolean isFor(Throwable failure) {
        return (onBusy == OnBusy.SKIP || handler != null)
                && (failure instanceof LockTimeoutException
                        || (failure instanceof UnavailableException unavailable
                                && unavailable.isSkipped()));
    }

    /** Returns the answer, which may be null; for a suspend function, as a publisher. */
    Object of(Object target, Object[] arguments, SteadlockException busy) throws Throwable {
        if (handler == null) {
            return nothing;
        }
        Object[] given = argumentsFor(arguments, busy);
        if (KotlinDetector.isSuspendingFunction(handler)) {
            return CoroutinesUtils.invokeSuspendingFunction(handler, target, given);
        }
        try {
            return handler.invoke(target, given);
        } catch (InvocationTargetException thrown) {
            throw thrown.getTargetException();
        }
    }

    private static Object nothingOf(CallShape shape, Class<?> type) {
        Object empty = EMPTY.get(type);
        return empty != null && shape == CallShape.SUSPENDING ? Mono.just(empty) : empty;
    }

    private Object[] argumentsFor(Object[] arguments, SteadlockException busy) {
        if (handler.getParameterCount() == arguments.length) {
            return arguments;
        }
        // The continuation of a suspend function is its last argument, after the exception.
        int count = arguments.length - (KotlinDetector.isSuspendingFunction(handler) ? 1 : 0);
        Object[] given = Arrays.copyOf(arguments, arguments.length + 1);
        if (count < arguments.length) {
            given[count + 1] = arguments[count];
        }
        given[count] = busy;
        return given;
    }

    private static Method handler(
            String where,
            DistributedLock lock,
            Method method,
            Class<?> targetClass,
            ResolvableType result) {
        String name = lock.busyHandler();
        if (lock.onBusy() != OnBusy.THROW) {
            throw new InvalidAnnotationException(
                    where
                            + ": busyHandler = \""
                            + name
                            + "\" and onBusy = SKIP exclude each other; leave one out");
        }
        List<Method> named =
                Arrays.stream(ReflectionUtils.getAllDeclaredMethods(targetClass))
                        .filter(it -> it.getName().equals(name) && !it.isBridge())
                        .toList();
        Method handler =
                named.stream()
                        .filter(it -> suits(it, method, result))
                        // A handler that takes the exception has precedence.
                        .max(Comparator.comparing(Method::getParameterCount))
                        .orElseThrow(
                                () ->
                                        new InvalidAnnotationException(
                                                where
                                                        + ": busyHandler = \""
                                                        + name
                                                        + "\": "
                                                        + (named.isEmpty()
                                                                ? "there is no such method"
                                                                : "no method of that name suits")
                                                        + "; it needs the arguments of "
                                                        + method.getName()
                                                        + ", after them a SteadlockException if it wants to know why, and"
                                                        + " the result "
                                                        + result));
        if (LockedMethods.annotationOf(handler) != null) {
            throw new InvalidAnnotationException(
                    where
                            + ": busyHandler = \""
                            + name
                            + "\" is annotated with @DistributedLock itself, and would run without its lock; name"
                            + " a method without it");
        }
        for (Class<?> thrown : handler.getExceptionTypes()) {
            if (!ReflectionUtils.declaresException(method, thrown) && isChecked(thrown)) {
                throw new InvalidAnnotationException(
                        where
                                + ": busyHandler = \""
                                + name
                                + "\" throws "
                                + thrown.getSimpleName()
                                + ", which "
                                + method.getName()
                                + " does not declare; let it declare that too, or throw another");
            }
        }
        ReflectionUtils.makeAccessible(handler);
        return handler;
    }

    private static boolean isChecked(Class<?> exception) {
        return !RuntimeException.class.isAssignableFrom(exception)
                && !Error.class.isAssignableFrom(exception);
    }

    private static boolean suits(Method handler, Method method, ResolvableType result) {
        boolean isSuspending = KotlinDetector.isSuspendingFunction(method);
        if (isSuspending != KotlinDetector.isSuspendingFunction(handler)
                || (!isSuspending && !result.toClass().isAssignableFrom(handler.getReturnType()))) {
            return false;
        }
        List<Class<?>> wanted = parametersOf(method, isSuspending);
        List<Class<?>> given = parametersOf(handler, isSuspending);
        if (given.equals(wanted)) {
            return true;
        }
        int last = given.size() - 1;
        return last == wanted.size()
                && given.subList(0, last).equals(wanted)
                && given.get(last).isAssignableFrom(SteadlockException.class);
    }

    private static List<Class<?>> parametersOf(Method method, boolean isSuspending) {
        List<Class<?>> parameters = Arrays.asList(method.getParameterTypes());
        return isSuspending ? parameters.subList(0, parameters.size() - 1) : parameters;
    }

    private static void checkSkip(String where, Method method, CallShape shape) {
        Class<?> type = method.getReturnType();
        if (type.isPrimitive() && type != void.class) {
            throw new InvalidAnnotationException(
                    where
                            + ": onBusy = SKIP, but a result of type "
                            + type
                            + " cannot be null; return its box, an"
                            + " Optional, or write a busyHandler");
        }
        boolean isValue = shape == CallShape.BLOCKING || shape == CallShape.SUSPENDING;
        if (isValue
                && KotlinDetector.isKotlinType(method.getDeclaringClass())
                && isNeverNull(method)) {
            throw new InvalidAnnotationException(
                    where
                            + ": onBusy = SKIP, but the result is of a type that is never null; let the type end in ?, or"
                            + " write a busyHandler");
        }
    }

    private static boolean isNeverNull(Method method) {
        MethodParameter result = new MethodParameter(method, -1);
        Class<?> type = result.getParameterType();
        return type != void.class
                && !EMPTY.containsKey(type)
                && !type.getName().equals("kotlin.Unit")
                && !result.isOptional();
    }
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.LockOptions;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.internal.CoreLimits;
import io.github.steadlock.internal.Limits;
import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import io.github.steadlock.spring.LockKind;
import io.github.steadlock.spring.OnCancel;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Arrays;
import java.util.Locale;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.aopalliance.intercept.MethodInvocation;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.KotlinDetector;
import org.springframework.core.MethodParameter;
import org.springframework.core.ResolvableType;
import org.springframework.util.function.SingletonSupplier;

/** An annotated method with its {@link DistributedLock}, read and checked once. */
final class LockedMethod {
    private static final Logger LOG = LoggerFactory.getLogger(LockedMethod.class);

    /** The method as messages name it. */
    final String where;

    final Method method;
    final CallShape shape;

    /** The result type of the method, resolved for the class of the bean. */
    final ResolvableType result;

    final BusyResult busy;
    final LockOptions options;
    final String reason;
    final OnCancel onCancel;

    /**
     * The client of the lock, looked up at the first use. Throws {@link InvalidAnnotationException}
     * if there is none.
     */
    final Supplier<SteadlockClient> client;

    /** Whether the method takes part in a transaction of its caller, if there is one. */
    final boolean joinsTransactions;

    private final Class<?> targetClass;
    private final DistributedLock lock;
    private final LockName name;
    private final AtomicBoolean warned = new AtomicBoolean();

    /**
     * @param defaultWait the wait of methods without one of their own; null to wait as long as the
     *     server answers
     * @throws InvalidAnnotationException if the annotation cannot work
     */
    LockedMethod(
            DistributedLock lock,
            Method method,
            Class<?> targetClass,
            boolean joinsTransactions,
            Duration defaultWait,
            LockClients clients,
            ConfigurableListableBeanFactory beans) {
        this.where = "@DistributedLock on " + nameOf(method, targetClass);
        this.lock = lock;
        this.method = method;
        this.targetClass = targetClass;
        this.joinsTransactions = joinsTransactions;
        this.reason = lock.reason();
        this.onCancel = lock.onCancel();
        this.client = SingletonSupplier.of(() -> clients.of(where, lock.client()));
        this.result = resultOf(method, targetClass);
        this.shape = CallShape.of(where, method, result);
        this.busy = new BusyResult(where, lock, method, targetClass, shape, result);
        this.name = new LockName(where, method, lock.name(), beans);
        this.options = options(defaultWait, beans);
        checkLimit();
        if (onCancel == OnCancel.RELEASE && shape != CallShape.STAGE) {
            throw new InvalidAnnotationException(
                    where
                            + ": onCancel = RELEASE is for a method that returns a CompletionStage;"
                            + " leave it out");
        }
    }

    /**
     * Returns the lock of one call. Throws {@link IllegalArgumentException} if the arguments give
     * no name.
     */
    LockTarget targetOf(MethodInvocation invocation) {
        var names = name.of(invocation.getThis(), targetClass, invocation.getArguments());
        return new LockTarget(client.get(), lock.kind(), names, lock.limit());
    }

    /** Returns whether the method may throw {@link InterruptedException}. */
    boolean declaresInterruption() {
        return Arrays.stream(method.getExceptionTypes())
                .anyMatch(type -> type.isAssignableFrom(InterruptedException.class));
    }

    /** Logs a warning if the work of the result is left to the caller of the method. */
    void warnOfLazyResult() {
        if (ContinuingWork.isLazy(result)) {
            LOG.warn(
                    "{} returns a {}. The caller uses it without the lock, which is released when the"
                            + " method returns. Return a complete result, such as a List",
                    where,
                    result);
        }
    }

    /** Returns the result of the method, or throws the exception of {@link #refusalOf}. */
    <T> T checked(T given) {
        InvalidAnnotationException refusal = refusalOf(given);
        if (refusal != null) {
            throw refusal;
        }
        return given;
    }

    /**
     * Returns an exception if the work of a result continues although the declared type does not
     * show this, or null.
     */
    InvalidAnnotationException refusalOf(Object given) {
        return ContinuingWork.continues(given)
                ? new InvalidAnnotationException(
                        where
                                + ": it is declared to return "
                                + (result.resolve() == null
                                        ? method.getGenericReturnType().getTypeName()
                                        : result)
                                + " and returned "
                                + given.getClass().getName()
                                + ", whose work continues without the lock; declare the type"
                                + " that it returns")
                : null;
    }

    private static ResolvableType resultOf(Method method, Class<?> targetClass) {
        return KotlinDetector.isSuspendingFunction(method)
                        && KotlinDetector.isKotlinReflectPresent()
                ? ResolvableType.forMethodParameter(
                        new MethodParameter(method, -1).withContainingClass(targetClass))
                : ResolvableType.forMethodReturnType(method, targetClass);
    }

    /** Returns true only at the first call. */
    boolean isFirstWarning() {
        return warned.compareAndSet(false, true);
    }

    /** Returns the name of a method for messages, such as {@code Shop.buy(long)}. */
    static String nameOf(Method method, Class<?> targetClass) {
        String parameters =
                Arrays.stream(method.getParameterTypes())
                        .map(Class::getSimpleName)
                        .filter(type -> !type.equals("Continuation"))
                        .collect(Collectors.joining(", ", "(", ")"));
        return targetClass.getName() + "." + method.getName() + parameters;
    }

    private LockOptions options(Duration defaultWait, ConfigurableListableBeanFactory beans) {
        LockOptions options = LockOptions.DEFAULT;
        Duration wait =
                lock.waitTime().isEmpty()
                        ? defaultWait
                        : duration("waitTime", lock.waitTime(), beans);
        if (wait != null) {
            if (wait.isNegative()) {
                throw new InvalidAnnotationException(
                        where + ": waitTime = \"" + lock.waitTime() + "\" is negative");
            }
            options = options.withWait(wait);
        }
        if (!lock.lease().isEmpty()) {
            Duration lease = duration("lease", lock.lease(), beans);
            Limits limits = CoreLimits.get();
            if (lease.compareTo(limits.getShortestLease()) < 0
                    || lease.compareTo(limits.getLongestLease()) > 0) {
                throw new InvalidAnnotationException(
                        where
                                + ": lease = \""
                                + lock.lease()
                                + "\" is not between "
                                + limits.getShortestLease().toMillis()
                                + " ms and "
                                + limits.getLongestLease().toHours()
                                + " h");
            }
            options = options.withLease(lease);
        }
        return options;
    }

    private Duration duration(
            String attribute, String source, ConfigurableListableBeanFactory beans) {
        try {
            return DurationStyle.detectAndParse(beans.resolveEmbeddedValue(source));
        } catch (IllegalArgumentException malformed) {
            throw new InvalidAnnotationException(
                    where
                            + ": "
                            + attribute
                            + " = \""
                            + source
                            + "\" is not a duration such as 500ms, 2s or PT2S: "
                            + malformed.getMessage(),
                    malformed);
        }
    }

    private void checkLimit() {
        if (lock.kind() != LockKind.SEMAPHORE && lock.limit() != 0) {
            throw new InvalidAnnotationException(
                    where
                            + ": limit is for a SEMAPHORE only, and kind is "
                            + lock.kind()
                            + "; leave one out");
        }
        if (lock.kind() != LockKind.SEMAPHORE) {
            return;
        }
        int most = CoreLimits.get().getMostPermits();
        if (lock.limit() < 1 || lock.limit() > most) {
            throw new InvalidAnnotationException(
                    String.format(
                            Locale.ROOT,
                            "%s: a SEMAPHORE needs a limit of 1 to %,d permits; it is %d",
                            where,
                            most,
                            lock.limit()));
        }
    }
}

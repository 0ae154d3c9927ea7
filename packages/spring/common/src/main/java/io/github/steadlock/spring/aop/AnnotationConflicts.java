package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import io.github.steadlock.spring.OnBusy;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties.Annotation.Retry;
import java.lang.reflect.AnnotatedElement;
import java.lang.reflect.Method;
import java.util.Arrays;
import java.util.Collection;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.aop.framework.Advised;
import org.springframework.aop.support.AbstractPointcutAdvisor;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.cache.interceptor.BeanFactoryCacheOperationSourceAdvisor;
import org.springframework.cache.interceptor.CacheOperation;
import org.springframework.cache.interceptor.CacheOperationSource;
import org.springframework.cache.interceptor.CachePutOperation;
import org.springframework.cache.interceptor.CacheableOperation;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.retry.annotation.Recover;
import org.springframework.retry.annotation.RetryConfiguration;
import org.springframework.scheduling.annotation.Async;
import org.springframework.util.StringUtils;

/**
 * The checks of other annotations on a method with {@link DistributedLock}: for retries, caches and
 * {@code @Async}. A contradiction to the properties stops the start. For a combination that is
 * rarely intended, there is a warning for each method and problem.
 */
final class AnnotationConflicts {
    private static final Logger LOG = LoggerFactory.getLogger(AnnotationConflicts.class);
    private static final String SPRING_RETRY = "org.springframework.retry.annotation.Retryable";
    private static final String FRAMEWORK_RETRY =
            "org.springframework.resilience.annotation.Retryable";

    private final int order;
    private final Retry retry;
    private final Integer retriesOrder;
    private final boolean hasFrameworkRetries;
    private final Integer cacheOrder;
    private final Collection<CacheOperationSource> cacheOperations;

    AnnotationConflicts(ListableBeanFactory beans, int order, Retry retry) {
        this.order = order;
        this.retry = retry;
        this.retriesOrder = Present.RETRIES ? Retries.orderIn(beans) : null;
        this.hasFrameworkRetries = hasFrameworkRetries(beans);
        this.cacheOrder = orderOf(beans, BeanFactoryCacheOperationSourceAdvisor.class);
        this.cacheOperations =
                beans.getBeansOfType(CacheOperationSource.class, true, false).values();
    }

    /**
     * @param bean the bean's object, usually a proxy; null if the bean is not made yet
     * @throws InvalidAnnotationException if a retry is outside of the lock and the properties
     *     demand that it is inside
     */
    void check(Class<?> type, Method method, DistributedLock lock, Object bean) {
        checkRetries(type, method, bean);
        checkCache(type, method, lock);
        if (isAnnotated(method, type, Async.class.getName())) {
            warnOfAsync(type, method);
        }
    }

    private void checkRetries(Class<?> type, Method method, Object bean) {
        boolean isOfFramework = hasFrameworkRetries && isAnnotated(method, type, FRAMEWORK_RETRY);
        boolean isInside = isOfFramework && !isOutermost(bean);
        boolean isOutside = isOfFramework && !isInside;
        if (retriesOrder != null
                && isAnnotated(method, type, SPRING_RETRY)
                && !Retries.isRecovery(method)) {
            isInside |= retriesOrder >= order;
            isOutside |= retriesOrder < order;
        }
        if (isOutside && retry == Retry.WHOLE_CALL) {
            throw new InvalidAnnotationException(
                    nameOf(method, type)
                            + " which is @Retryable: steadlock.annotation.retry=whole-call, but each"
                            + " attempt acquires the lock, as this retry is outside of it."
                            + (isOfFramework
                                    ? " Spring Framework's retry has no order: let the locked method call a"
                                            + " @Retryable one of another bean"
                                    : " Let @EnableRetry have an order of more than " + order));
        }
        if (isInside && retry == Retry.EACH_ATTEMPT) {
            LOG.warn(
                    "{} which is @Retryable: the retry is inside of the lock, so the lock is held during back-offs,"
                            + " and a busy lock is not retried. {}, or set steadlock.annotation.retry=whole-call if that"
                            + " is meant",
                    nameOf(method, type),
                    isOfFramework
                            ? "Let @EnableResilientMethods have no order"
                            : "Let @EnableRetry have no order or one of less than " + order);
        }
    }

    private void checkCache(Class<?> type, Method method, DistributedLock lock) {
        if (cacheOrder == null) {
            return;
        }
        List<CacheOperation> operations =
                cacheOperations.stream()
                        .map(source -> source.getCacheOperations(method, type))
                        .filter(found -> found != null)
                        .flatMap(Collection::stream)
                        .toList();
        boolean isOutside = cacheOrder < order;
        if (!isOutside && operations.stream().anyMatch(CacheableOperation.class::isInstance)) {
            LOG.warn(
                    "{} which is @Cacheable: each call acquires the lock, also where the value is in the cache. Say"
                            + " @EnableCaching(order = {}) to have the cache outside of the lock, or leave the"
                            + " annotation to a method of another bean that calls this one",
                    nameOf(method, type),
                    order - 1);
        }
        boolean answers = lock.onBusy() == OnBusy.SKIP || !lock.busyHandler().isEmpty();
        if (isOutside && answers && operations.stream().anyMatch(AnnotationConflicts::keepsAll)) {
            LOG.warn(
                    "{} whose result is cached: the cache is outside of the lock, so it keeps {} of a busy lock as the"
                            + " value. Exclude these results by unless = \"#result == null\" or the"
                            + " like, or let a busy lock throw",
                    nameOf(method, type),
                    lock.onBusy() == OnBusy.SKIP ? "the null" : "the busyHandler's answer");
        }
    }

    private static boolean keepsAll(CacheOperation operation) {
        return operation instanceof CacheableOperation cacheable
                        && !StringUtils.hasText(cacheable.getUnless())
                || operation instanceof CachePutOperation put
                        && !StringUtils.hasText(put.getUnless());
    }

    private static void warnOfAsync(Class<?> type, Method method) {
        LOG.warn(
                "{} which is @Async: the lock is acquired on the executor's thread after the call"
                        + " has returned{}. Let an @Async method call a locked one of another bean if that is not meant",
                nameOf(method, type),
                method.getReturnType() == void.class
                        ? ", and an exception of a busy lock reaches only the AsyncUncaughtExceptionHandler"
                        : "");
    }

    private static String nameOf(Method method, Class<?> type) {
        return "@DistributedLock on " + LockedMethod.nameOf(method, type);
    }

    /**
     * Returns whether a method or its class has the annotation, directly or by a composed
     * annotation.
     */
    private static boolean isAnnotated(Method method, Class<?> type, String annotation) {
        return has(method, annotation)
                || has(method.getDeclaringClass(), annotation)
                || has(type, annotation);
    }

    private static boolean has(AnnotatedElement element, String annotation) {
        return MergedAnnotations.from(element, SearchStrategy.TYPE_HIERARCHY).isPresent(annotation);
    }

    /**
     * Returns the order of the advisor of this type, or null if there is none. If there are
     * several, returns the highest order.
     */
    private static Integer orderOf(
            ListableBeanFactory beans, Class<? extends AbstractPointcutAdvisor> type) {
        return beans.getBeansOfType(type, true, false).values().stream()
                .map(AbstractPointcutAdvisor::getOrder)
                .max(Integer::compare)
                .orElse(null);
    }

    /**
     * Returns whether the retries of Spring Framework are outside of the lock, because they are in
     * the outer proxy. True too if {@code bean} is no proxy.
     */
    private static boolean isOutermost(Object bean) {
        return !(bean instanceof Advised proxy)
                || Arrays.stream(proxy.getAdvisors())
                        .map(advisor -> advisor.getAdvice().getClass().getName())
                        .anyMatch(name -> name.startsWith(Present.FRAMEWORK_RETRIES_CLASS));
    }

    private static boolean hasFrameworkRetries(ListableBeanFactory beans) {
        try {
            Class<?> type =
                    Class.forName(
                            Present.FRAMEWORK_RETRIES_CLASS,
                            false,
                            AnnotationConflicts.class.getClassLoader());
            return beans.getBeanNamesForType(type, true, false).length > 0;
        } catch (ClassNotFoundException before7) {
            return false;
        }
    }

    /** The code that needs spring-retry. */
    private static final class Retries {
        static Integer orderIn(ListableBeanFactory beans) {
            return orderOf(beans, RetryConfiguration.class);
        }

        /**
         * Returns whether the method is a {@code @Recover} method, which is never retried, even if
         * its class is {@code @Retryable}.
         */
        static boolean isRecovery(Method method) {
            return has(method, Recover.class.getName()) && !has(method, SPRING_RETRY);
        }
    }
}

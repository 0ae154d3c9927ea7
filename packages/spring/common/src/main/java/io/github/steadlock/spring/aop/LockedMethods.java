package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.InvalidAnnotationException;
import java.lang.reflect.Method;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.MethodClassKey;
import org.springframework.core.MethodIntrospector;
import org.springframework.core.annotation.AnnotatedElementUtils;
import org.springframework.core.annotation.AnnotationUtils;
import org.springframework.core.env.Environment;
import org.springframework.util.ClassUtils;

/** The annotated methods, each read at its first use. */
final class LockedMethods {
    private final Map<MethodClassKey, LockedMethod> known = new ConcurrentHashMap<>();
    private final ConfigurableListableBeanFactory beans;
    private final LockClients clients;
    private final Duration defaultWait;

    LockedMethods(ConfigurableListableBeanFactory beans, Environment environment) {
        this.beans = beans;
        this.clients = new LockClients(beans);
        this.defaultWait = defaultWait(environment);
    }

    /**
     * Returns the annotation of a method, or null. Finds the annotation on an interface and on
     * overridden methods too.
     */
    static DistributedLock annotationOf(Method method) {
        return AnnotatedElementUtils.findMergedAnnotation(method, DistributedLock.class);
    }

    /** Returns the annotated methods of a class with their annotations. */
    static Map<Method, DistributedLock> annotatedOf(Class<?> type) {
        return AnnotationUtils.isCandidateClass(type, DistributedLock.class)
                ? MethodIntrospector.selectMethods(
                        type,
                        (MethodIntrospector.MetadataLookup<DistributedLock>)
                                LockedMethods::annotationOf)
                : Map.of();
    }

    /**
     * Returns an annotated method, resolved for the class of the bean.
     *
     * @throws io.github.steadlock.spring.InvalidAnnotationException if the annotation cannot work
     */
    LockedMethod of(Method method, Class<?> targetClass) {
        return known.computeIfAbsent(
                new MethodClassKey(method, targetClass), key -> read(method, targetClass));
    }

    private LockedMethod read(Method method, Class<?> targetClass) {
        Class<?> userClass = ClassUtils.getUserClass(targetClass);
        Method specific = AopUtils.getMostSpecificMethod(method, userClass);
        DistributedLock lock = annotationOf(specific);
        boolean joins =
                !Present.TRANSACTIONS || JoinedTransactions.joins(specific, userClass, beans);
        return new LockedMethod(
                lock == null ? annotationOf(method) : lock,
                specific,
                userClass,
                joins,
                defaultWait,
                clients,
                beans);
    }

    private static Duration defaultWait(Environment environment) {
        String given = environment.getProperty("steadlock.wait");
        if (given == null || given.isEmpty()) {
            return null;
        }
        Duration wait = DurationStyle.detectAndParse(given);
        if (wait.isNegative()) {
            throw new InvalidAnnotationException("steadlock.wait is negative: " + given);
        }
        return wait;
    }
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.DistributedLock;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties.Annotation.Retry;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.aop.framework.autoproxy.AutoProxyUtils;
import org.springframework.aop.scope.ScopedProxyUtils;
import org.springframework.aop.support.AopUtils;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.InitializingBean;
import org.springframework.beans.factory.SmartInitializingSingleton;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.util.ClassUtils;
import org.springframework.util.function.SingletonSupplier;

/**
 * The scan of all annotated methods after the beans are made. An annotation that cannot work stops
 * the start. For an annotation that does not work as it looks, there is a warning.
 */
final class StartScan implements SmartInitializingSingleton {
    private static final Logger LOG = LoggerFactory.getLogger(StartScan.class);

    private static final Set<String> LIFECYCLE =
            Set.of("jakarta.annotation.PostConstruct", "jakarta.annotation.PreDestroy");

    private final ConfigurableListableBeanFactory beans;
    private final LockedMethods methods;
    private final int order;
    private final Supplier<AnnotationConflicts> others;
    private final Set<Class<?>> seen = new HashSet<>();

    StartScan(
            ConfigurableListableBeanFactory beans, LockedMethods methods, int order, Retry retry) {
        this.beans = beans;
        this.methods = methods;
        this.order = order;
        this.others = SingletonSupplier.of(() -> new AnnotationConflicts(beans, order, retry));
    }

    @Override
    public void afterSingletonsInstantiated() {
        for (String name : beans.getBeanNamesForType(Object.class, true, false)) {
            Class<?> type = classOf(name);
            if (type != null && seen.add(type)) {
                Map<Method, DistributedLock> annotated = LockedMethods.annotatedOf(type);
                if (!annotated.isEmpty()) {
                    scan(name, type, annotated);
                }
            }
        }
    }

    private Class<?> classOf(String beanName) {
        if (beans.containsBean(ScopedProxyUtils.getTargetBeanName(beanName))) {
            return null; // A scoped proxy: its target is a bean of its own.
        }
        Class<?> type = AutoProxyUtils.determineTargetClass(beans, beanName);
        return type == null ? null : ClassUtils.getUserClass(type);
    }

    private void scan(String beanName, Class<?> type, Map<Method, DistributedLock> annotated) {
        if (Present.TRANSACTIONS) {
            TransactionOrder.check(beans, order);
        }
        // Null if the bean has no object yet, or only that of its factory. Such a bean is taken to
        // have a proxy.
        boolean isThere = beans.containsSingleton(beanName) && !isOfFactory(beanName);
        Object singleton = isThere ? beans.getSingleton(beanName) : null;
        boolean isIntercepted = singleton == null || AopUtils.isAopProxy(singleton);
        for (Method method : annotated.keySet()) {
            LockedMethod locked = methods.of(method, type);
            locked.client.get();
            locked.warnOfLazyResult();
            warnOfModifiers(type, method, isIntercepted);
            warnOfLifecycle(beanName, type, method);
            others.get().check(type, method, annotated.get(method), singleton);
        }
    }

    private boolean isOfFactory(String beanName) {
        return beans.containsBean(beanName) && beans.isFactoryBean(beanName);
    }

    /**
     * Logs a warning if Spring calls the method when it initializes or destroys the bean, because
     * such a call does not go through the proxy.
     */
    private void warnOfLifecycle(String beanName, Class<?> type, Method method) {
        BeanDefinition bean =
                beans.containsBeanDefinition(beanName)
                        ? beans.getMergedBeanDefinition(beanName)
                        : null;
        String name = method.getName();
        boolean isNamed =
                bean != null
                        && (name.equals(bean.getInitMethodName())
                                || name.equals(bean.getDestroyMethodName()));
        boolean isOfInterface =
                (InitializingBean.class.isAssignableFrom(type) && name.equals("afterPropertiesSet"))
                        || (DisposableBean.class.isAssignableFrom(type) && name.equals("destroy"));
        boolean isAnnotated =
                Stream.of(method.getAnnotations())
                        .anyMatch(it -> LIFECYCLE.contains(it.annotationType().getName()));
        if (method.getParameterCount() == 0 && (isNamed || isOfInterface || isAnnotated)) {
            LOG.warn(
                    "@DistributedLock on {} does not count where Spring calls it to begin or to end the bean, without its"
                            + " proxy; call an annotated method of another bean in it",
                    LockedMethod.nameOf(method, type));
        }
    }

    private static void warnOfModifiers(Class<?> type, Method method, boolean isIntercepted) {
        int modifiers = method.getModifiers();
        String problem = null;
        if (Modifier.isStatic(modifiers)) {
            problem = "it is static; let it be a method of the bean";
        } else if (Modifier.isPrivate(modifiers)) {
            problem = "it is private; make it public, and call it from another bean";
        } else if (Modifier.isFinal(modifiers)) {
            problem =
                    "it is final, which the proxy cannot override; leave final out, or in Kotlin say open or use the"
                            + " plugin kotlin-spring";
        } else if (!isIntercepted) {
            problem =
                    Modifier.isFinal(type.getModifiers())
                            ? "its class is final; leave final out, or in Kotlin say open or use the plugin kotlin-spring"
                            : "its bean has no proxy: it was made before the proxies were, as others that Spring itself"
                                    + " needs depend on it (move the method to a bean of its own), or something, such as a"
                                    + " mock, is in its place";
        }
        if (problem != null) {
            LOG.warn(
                    "@DistributedLock on {} does not count, so no lock is acquired: {}",
                    LockedMethod.nameOf(method, type),
                    problem);
        }
    }
}

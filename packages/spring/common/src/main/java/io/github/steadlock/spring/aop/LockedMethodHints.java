package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.DistributedLock;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.stream.Stream;
import org.springframework.aot.hint.ExecutableMode;
import org.springframework.aot.hint.MemberCategory;
import org.springframework.aot.hint.ReflectionHints;
import org.springframework.aot.hint.RuntimeHints;
import org.springframework.beans.factory.aot.BeanRegistrationAotContribution;
import org.springframework.beans.factory.aot.BeanRegistrationAotProcessor;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.beans.factory.support.RegisteredBean;
import org.springframework.core.annotation.MergedAnnotations;
import org.springframework.core.annotation.MergedAnnotations.SearchStrategy;
import org.springframework.util.ClassUtils;
import org.springframework.util.ReflectionUtils;

/**
 * The reflection hints that a native image needs for each annotated method: the method itself, its
 * {@code busyHandler}, its annotations, and the members that the name of its lock reads.
 */
final class LockedMethodHints implements BeanRegistrationAotProcessor {
    @Override
    public BeanRegistrationAotContribution processAheadOfTime(RegisteredBean bean) {
        Class<?> type = ClassUtils.getUserClass(bean.getBeanClass());
        Map<Method, DistributedLock> annotated = LockedMethods.annotatedOf(type);
        if (annotated.isEmpty()) {
            return null;
        }
        return (generation, code) -> {
            RuntimeHints hints = generation.getRuntimeHints();
            registerAlways(hints, type);
            annotated.forEach(
                    (method, lock) -> register(hints, type, method, lock, bean.getBeanFactory()));
        };
    }

    private static void registerAlways(RuntimeHints hints, Class<?> type) {
        ClassLoader loader = LockedMethodHints.class.getClassLoader();
        Stream.concat(Present.CLASSES.stream(), ContinuingWork.CLASSES.stream())
                .forEach(
                        name -> hints.reflection().registerTypeIfPresent(loader, name, hint -> {}));
        // Spring merges a composed annotation into a JDK proxy of this type.
        hints.proxies().registerJdkProxy(DistributedLock.class);
        for (Class<?> one : ClassUtils.getAllInterfacesForClass(type)) {
            hints.reflection().registerType(one, MemberCategory.INVOKE_PUBLIC_METHODS);
        }
    }

    private static void register(
            RuntimeHints hints,
            Class<?> type,
            Method method,
            DistributedLock lock,
            ConfigurableListableBeanFactory beans) {
        ReflectionHints reflection = hints.reflection();
        reflection.registerMethod(method, ExecutableMode.INVOKE);
        MergedAnnotations.from(method, SearchStrategy.TYPE_HIERARCHY)
                .get(DistributedLock.class)
                .getMetaTypes()
                .forEach(
                        annotation ->
                                reflection.registerType(
                                        annotation, MemberCategory.INVOKE_PUBLIC_METHODS));
        Stream.of(ReflectionUtils.getAllDeclaredMethods(type))
                .filter(other -> other.getName().equals(lock.busyHandler()))
                .forEach(handler -> reflection.registerMethod(handler, ExecutableMode.INVOKE));
        new LockNameHints(reflection, method, beans).register(lock.name());
    }
}

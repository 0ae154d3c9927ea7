package io.github.steadlock.spring.aop;

import org.springframework.util.ClassUtils;

/** What a program may leave out. */
final class Present {
    static final boolean TRANSACTIONS =
            isPresent("org.springframework.transaction.interceptor.TransactionAttributeSource");
    static final boolean REACTOR = isPresent("reactor.core.publisher.Mono");
    static final boolean COROUTINES = isPresent("kotlinx.coroutines.reactor.MonoKt");

    private Present() {}

    private static boolean isPresent(String className) {
        return ClassUtils.isPresent(className, Present.class.getClassLoader());
    }
}

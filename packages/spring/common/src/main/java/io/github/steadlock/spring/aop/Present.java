package io.github.steadlock.spring.aop;

import java.util.List;
import org.springframework.util.ClassUtils;

/** What a program may leave out. */
final class Present {
    /** Of Spring Framework 7. */
    static final String FRAMEWORK_RETRIES_CLASS =
            "org.springframework.resilience.annotation.RetryAnnotationBeanPostProcessor";

    private static final String TRANSACTION_CLASS =
            "org.springframework.transaction.interceptor.TransactionAttributeSource";
    private static final String RETRIES_CLASS =
            "org.springframework.retry.annotation.RetryConfiguration";
    private static final String REACTOR_CLASS = "reactor.core.publisher.Mono";
    private static final String COROUTINES_CLASS = "kotlinx.coroutines.reactor.MonoKt";

    /** The classes asked for by name, which a native image has to know. */
    static final List<String> CLASSES =
            List.of(
                    TRANSACTION_CLASS,
                    RETRIES_CLASS,
                    FRAMEWORK_RETRIES_CLASS,
                    REACTOR_CLASS,
                    COROUTINES_CLASS);

    static final boolean TRANSACTIONS = isPresent(TRANSACTION_CLASS);
    static final boolean RETRIES = isPresent(RETRIES_CLASS);
    static final boolean REACTOR = isPresent(REACTOR_CLASS);
    static final boolean COROUTINES = isPresent(COROUTINES_CLASS);

    private Present() {}

    static boolean isPresent(String className) {
        return ClassUtils.isPresent(className, Present.class.getClassLoader());
    }
}

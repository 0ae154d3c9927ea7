package io.github.steadlock.spring.aop;

import java.util.List;
import org.springframework.util.ClassUtils;

/** The optional libraries that the program has. */
final class Present {
    /** A class that Spring Framework has from version 7 on. */
    static final String FRAMEWORK_RETRIES_CLASS =
            "org.springframework.resilience.annotation.RetryAnnotationBeanPostProcessor";

    private static final String TRANSACTION_CLASS =
            "org.springframework.transaction.interceptor.TransactionAttributeSource";
    private static final String RETRIES_CLASS =
            "org.springframework.retry.annotation.RetryConfiguration";
    private static final String REACTOR_CLASS = "reactor.core.publisher.Mono";
    private static final String COROUTINES_CLASS = "kotlinx.coroutines.reactor.MonoKt";

    /** The classes that are looked up by name. A native image must know them. */
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

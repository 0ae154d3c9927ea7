package io.github.steadlock.spring.aop;

import java.lang.reflect.Method;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.transaction.TransactionDefinition;
import org.springframework.transaction.interceptor.TransactionAttribute;
import org.springframework.transaction.interceptor.TransactionAttributeSource;

/** The check whether a method takes part in the transaction of its caller. Needs spring-tx. */
final class JoinedTransactions {
    private JoinedTransactions() {}

    /** Returns false only for methods that suspend the transaction of their caller. */
    static boolean joins(Method method, Class<?> targetClass, ListableBeanFactory beans) {
        return beans.getBeanProvider(TransactionAttributeSource.class).stream()
                .map(source -> source.getTransactionAttribute(method, targetClass))
                .noneMatch(JoinedTransactions::isApart);
    }

    private static boolean isApart(TransactionAttribute attribute) {
        return attribute != null
                && (attribute.getPropagationBehavior()
                                == TransactionDefinition.PROPAGATION_REQUIRES_NEW
                        || attribute.getPropagationBehavior()
                                == TransactionDefinition.PROPAGATION_NOT_SUPPORTED);
    }
}

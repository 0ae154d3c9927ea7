package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.InvalidAnnotationException;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.transaction.interceptor.BeanFactoryTransactionAttributeSourceAdvisor;

/** The check of the order of lock and transaction around a method. Needs spring-tx. */
final class TransactionOrder {
    private TransactionOrder() {}

    /**
     * Throws unless the lock is acquired before a transaction begins, and so is released after the
     * transaction has ended.
     */
    static void check(ListableBeanFactory beans, int order) {
        beans.getBeansOfType(BeanFactoryTransactionAttributeSourceAdvisor.class, true, false)
                .forEach(
                        (name, advisor) -> {
                            if (order >= advisor.getOrder()) {
                                throw new InvalidAnnotationException(
                                        "@DistributedLock is of the order "
                                                + order
                                                + " and @Transactional ("
                                                + name
                                                + ") of "
                                                + advisor.getOrder()
                                                + ", so that a method's lock would be"
                                                + " released before its transaction has committed; set"
                                                + " steadlock.annotation.order to less than "
                                                + advisor.getOrder());
                            }
                        });
    }
}

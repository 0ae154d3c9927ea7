package io.github.steadlock.spring.aop;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.core.PriorityOrdered;
import org.springframework.transaction.ConfigurableTransactionManager;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.TransactionExecution;
import org.springframework.transaction.TransactionExecutionListener;

/**
 * The commit guard of blocking transaction managers: checks the leases of the thread, as the last
 * listener before a commit.
 */
final class TransactionManagerGuard
        implements BeanPostProcessor, PriorityOrdered, TransactionExecutionListener {
    /**
     * Runs first, so that it also covers transaction managers that other post-processors depend on.
     */
    @Override
    public int getOrder() {
        return HIGHEST_PRECEDENCE;
    }

    @Override
    public Object postProcessAfterInitialization(Object bean, String beanName) {
        if (bean instanceof ConfigurableTransactionManager manager
                && bean instanceof PlatformTransactionManager) {
            Collection<TransactionExecutionListener> listeners =
                    manager.getTransactionExecutionListeners();
            if (!listeners.contains(this)) {
                List<TransactionExecutionListener> all = new ArrayList<>(listeners);
                all.add(this);
                manager.setTransactionExecutionListeners(all);
            }
        }
        return bean;
    }

    /**
     * Throws if a lease is not valid. The manager rolls back, because the exception is no
     * TransactionException.
     */
    @Override
    public void beforeCommit(TransactionExecution transaction) {
        ThreadLeases.requireValid();
    }
}

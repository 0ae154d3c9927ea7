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

/** Has every transaction manager look at the thread's leases as the last thing before a commit. */
final class TransactionManagerGuard
        implements BeanPostProcessor, PriorityOrdered, TransactionExecutionListener {
    /** Before those that other post-processors are made with. */
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

    /** What is thrown here, and is no TransactionException, has the manager roll back. */
    @Override
    public void beforeCommit(TransactionExecution transaction) {
        ThreadLeases.requireValid();
    }
}

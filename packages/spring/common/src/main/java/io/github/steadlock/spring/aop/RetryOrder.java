package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.autoconfigure.SteadlockProperties.Annotation.Retry;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.core.Ordered;
import org.springframework.core.PriorityOrdered;
import org.springframework.core.env.Environment;
import org.springframework.retry.annotation.RetryConfiguration;

/**
 * A post-processor that moves the retries of spring-retry just outside of the lock. Needs
 * spring-retry.
 *
 * <p>By default, the order of the retries is one less than that of {@code @Transactional}. No order
 * of the lock fits between the two, so the retries move and not the lock. The retries stay outside
 * of transactions. A lower order that {@code @EnableRetry} sets is kept. With {@code
 * steadlock.annotation.retry=whole-call}, nothing moves.
 */
final class RetryOrder implements BeanPostProcessor, PriorityOrdered {
    /** The default order of {@code @EnableRetry}. */
    private static final int DEFAULT = Ordered.LOWEST_PRECEDENCE - 1;

    private final int lockOrder;
    private final Retry retry;

    RetryOrder(Environment environment) {
        this.lockOrder = DistributedLockAutoConfiguration.orderOf(environment);
        this.retry = DistributedLockAutoConfiguration.retryOf(environment);
    }

    /** Runs first, before Spring makes the advisors for the first proxy. */
    @Override
    public int getOrder() {
        return HIGHEST_PRECEDENCE;
    }

    /**
     * Changes the order after the advisor has read {@code @EnableRetry}, and before proxies use the
     * advisor.
     */
    @Override
    public Object postProcessAfterInitialization(Object bean, String beanName) {
        if (retry == Retry.EACH_ATTEMPT
                && bean instanceof RetryConfiguration retries
                && retries.getOrder() >= DEFAULT
                && lockOrder <= retries.getOrder()
                && lockOrder > Ordered.HIGHEST_PRECEDENCE) {
            retries.setOrder(lockOrder - 1);
        }
        return bean;
    }
}

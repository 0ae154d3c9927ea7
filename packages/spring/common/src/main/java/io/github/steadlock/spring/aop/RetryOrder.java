package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.autoconfigure.SteadlockProperties.Annotation.Retry;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.core.Ordered;
import org.springframework.core.PriorityOrdered;
import org.springframework.core.env.Environment;
import org.springframework.retry.annotation.RetryConfiguration;

/**
 * Puts the retries of spring-retry just outside of the lock. Needs spring-retry.
 *
 * <p>Their order is one less than that of {@code @Transactional} unless {@code @EnableRetry} has
 * another, so no order of the lock fits between the two: the retries move, not the lock. They stay
 * outside of transactions, as they were.
 */
final class RetryOrder implements BeanPostProcessor, PriorityOrdered {
    /** The default of {@code @EnableRetry}. */
    private static final int DEFAULT = Ordered.LOWEST_PRECEDENCE - 1;

    private final int lockOrder;
    private final Retry retry;

    RetryOrder(Environment environment) {
        this.lockOrder = DistributedLockAutoConfiguration.orderOf(environment);
        this.retry = DistributedLockAutoConfiguration.retryOf(environment);
    }

    /** Before the advisors are made, which the first proxy needs. */
    @Override
    public int getOrder() {
        return HIGHEST_PRECEDENCE;
    }

    /** Before proxies are made with the advisor, and after it has read {@code @EnableRetry}. */
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

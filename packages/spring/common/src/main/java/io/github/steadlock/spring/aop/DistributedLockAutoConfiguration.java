package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties.Annotation.Retry;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnClass;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.context.annotation.Role;
import org.springframework.core.env.Environment;
import org.springframework.retry.annotation.RetryConfiguration;
import org.springframework.transaction.TransactionExecutionListener;
import org.springframework.transaction.reactive.TransactionSynchronizationManager;
import reactor.core.publisher.Mono;

/**
 * The auto-configuration of {@link io.github.steadlock.spring.DistributedLock} and of the commit
 * guard.
 *
 * <p>This configuration applies even if there is no client: annotated methods then stop the start
 * of the program, because they must not run without a lock. Only {@code
 * steadlock.annotation.enabled=false} lets them run without a lock.
 */
@AutoConfiguration(after = SteadlockAutoConfiguration.class)
@ConditionalOnProperty(
        name = "steadlock.annotation.enabled",
        havingValue = "true",
        matchIfMissing = true)
@Import(AutoProxyRegistrar.class)
@Role(BeanDefinition.ROLE_INFRASTRUCTURE)
public class DistributedLockAutoConfiguration {
    @Bean
    @ConditionalOnMissingBean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static LockReasons steadlockLockReasons() {
        return new LockReasons();
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static LockedMethods steadlockLockedMethods(
            ConfigurableListableBeanFactory beans, Environment environment) {
        return new LockedMethods(beans, environment);
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static DistributedLockAdvisor steadlockDistributedLockAdvisor(
            LockedMethods methods, LockReasons reasons, Environment environment) {
        var interceptor = new DistributedLockInterceptor(methods, reasons);
        return new DistributedLockAdvisor(interceptor, orderOf(environment));
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static StartScan steadlockStartScan(
            LockedMethods methods, ConfigurableListableBeanFactory beans, Environment environment) {
        return new StartScan(beans, methods, orderOf(environment), retryOf(environment));
    }

    static Retry retryOf(Environment environment) {
        return Binder.get(environment)
                .bind("steadlock.annotation.retry", Retry.class)
                .orElse(Retry.EACH_ATTEMPT);
    }

    static int orderOf(Environment environment) {
        return environment.getProperty(
                "steadlock.annotation.order",
                Integer.class,
                SteadlockProperties.Annotation.DEFAULT_ORDER);
    }

    /** The guard that rolls back a transaction whose lease is not valid before the commit. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(TransactionExecutionListener.class)
    @ConditionalOnProperty(
            name = "steadlock.annotation.commit-guard",
            havingValue = "true",
            matchIfMissing = true)
    static class Guard {
        @Bean
        @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
        static TransactionManagerGuard steadlockTransactionManagerGuard() {
            return new TransactionManagerGuard();
        }
    }

    /**
     * The guard that rolls back a reactive transaction whose lease is not valid before the commit.
     */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass({TransactionSynchronizationManager.class, Mono.class})
    @ConditionalOnProperty(
            name = "steadlock.annotation.commit-guard",
            havingValue = "true",
            matchIfMissing = true)
    static class ReactiveTransactionGuard {
        @Bean
        @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
        static ReactiveGuard steadlockReactiveGuard() {
            return new ReactiveGuard();
        }
    }

    /** The configuration of the order of spring-retry and the lock. */
    @Configuration(proxyBeanMethods = false)
    @ConditionalOnClass(RetryConfiguration.class)
    static class Retries {
        @Bean
        @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
        static RetryOrder steadlockRetryOrder(Environment environment) {
            return new RetryOrder(environment);
        }
    }
}

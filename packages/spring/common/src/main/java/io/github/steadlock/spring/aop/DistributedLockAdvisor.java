package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.DistributedLock;
import org.aopalliance.aop.Advice;
import org.springframework.aop.Pointcut;
import org.springframework.aop.support.AbstractPointcutAdvisor;
import org.springframework.aop.support.annotation.AnnotationMatchingPointcut;

/** The advisor that applies the lock to annotated methods. */
final class DistributedLockAdvisor extends AbstractPointcutAdvisor {
    private static final long serialVersionUID = 1;

    private final transient Pointcut pointcut =
            new AnnotationMatchingPointcut(null, DistributedLock.class, true);
    private final transient Advice advice;

    DistributedLockAdvisor(DistributedLockInterceptor advice, int order) {
        this.advice = advice;
        setOrder(order);
    }

    @Override
    public Pointcut getPointcut() {
        return pointcut;
    }

    @Override
    public Advice getAdvice() {
        return advice;
    }
}

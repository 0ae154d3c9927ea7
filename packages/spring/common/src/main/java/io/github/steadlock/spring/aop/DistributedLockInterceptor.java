package io.github.steadlock.spring.aop;

import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;

/** The interceptor that runs annotated methods while they hold their lock. */
final class DistributedLockInterceptor implements MethodInterceptor {
    private final LockedMethods methods;
    private final LockReasons reasons;

    DistributedLockInterceptor(LockedMethods methods, LockReasons reasons) {
        this.methods = methods;
        this.reasons = reasons;
    }

    @Override
    public Object invoke(MethodInvocation invocation) throws Throwable {
        Object target = invocation.getThis();
        Class<?> targetClass =
                target == null ? invocation.getMethod().getDeclaringClass() : target.getClass();
        LockedMethod method = methods.of(invocation.getMethod(), targetClass);
        return switch (method.shape) {
            case BLOCKING -> BlockingCall.run(invocation, method, reasons);
            case STAGE -> StageCall.run(invocation, method, reasons);
            case REACTIVE, SUSPENDING, SUSPENDING_FLOW ->
                    ReactiveCall.run(invocation, method, reasons);
        };
    }
}

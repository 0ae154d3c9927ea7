package io.github.steadlock.spring.aop;

import java.lang.reflect.Method;
import java.util.List;
import org.aopalliance.intercept.MethodInterceptor;
import org.aopalliance.intercept.MethodInvocation;
import org.reactivestreams.Publisher;
import org.springframework.aop.ClassFilter;
import org.springframework.aop.framework.autoproxy.AbstractBeanFactoryAwareAdvisingPostProcessor;
import org.springframework.aop.support.DefaultPointcutAdvisor;
import org.springframework.aop.support.StaticMethodMatcherPointcut;
import org.springframework.core.KotlinDetector;
import org.springframework.core.ReactiveAdapter;
import org.springframework.core.ReactiveAdapterRegistry;
import org.springframework.transaction.annotation.AnnotationTransactionAttributeSource;
import reactor.core.publisher.Flux;
import reactor.core.publisher.Mono;

/**
 * The commit guard of reactive transactions, which checks the leases of the context before the
 * commit. A listener of the transaction manager has no access to the context. For this reason the
 * guard is the innermost advice, inside that of {@code @Transactional}.
 */
final class ReactiveGuard extends AbstractBeanFactoryAwareAdvisingPostProcessor {
    private static final long serialVersionUID = 1;

    ReactiveGuard() {
        this.advisor =
                new DefaultPointcutAdvisor(
                        new Transactional(), (MethodInterceptor) ReactiveGuard::guarded);
    }

    private static Object guarded(MethodInvocation invocation) throws Throwable {
        Object result = invocation.proceed();
        if (result instanceof Mono<?> mono) {
            return join().then(mono);
        }
        if (result instanceof Flux<?> flux) {
            return join().thenMany(flux);
        }
        ReactiveAdapter adapter =
                ReactiveAdapterRegistry.getSharedInstance().getAdapter(null, result);
        if (result == null || adapter == null) {
            return result;
        }
        Publisher<Object> publisher = adapter.toPublisher(result);
        return adapter.fromPublisher(
                adapter.isMultiValue()
                        ? join().thenMany(publisher)
                        : join().then(Mono.from(publisher)));
    }

    private static Mono<Void> join() {
        return Mono.deferContextual(
                context -> {
                    List<HeldLease> held = ContextLeases.of(context);
                    return held.isEmpty()
                            ? Mono.empty()
                            : ReactiveTransaction.current()
                                    .doOnNext(
                                            it ->
                                                    held.forEach(
                                                            lease ->
                                                                    it.beforeCommit(
                                                                            lease::requireValid)))
                                    .then();
                });
    }

    private static final class Transactional extends StaticMethodMatcherPointcut {
        private final AnnotationTransactionAttributeSource transactions =
                new AnnotationTransactionAttributeSource(false);

        Transactional() {
            setClassFilter((ClassFilter) transactions::isCandidateClass);
        }

        @Override
        public boolean matches(Method method, Class<?> targetClass) {
            return isReactive(method)
                    && transactions.getTransactionAttribute(method, targetClass) != null;
        }

        private static boolean isReactive(Method method) {
            if (KotlinDetector.isSuspendingFunction(method)) {
                return true;
            }
            ReactiveAdapter adapter =
                    ReactiveAdapterRegistry.getSharedInstance().getAdapter(method.getReturnType());
            return adapter != null && adapter.getDescriptor().isDeferred();
        }
    }
}

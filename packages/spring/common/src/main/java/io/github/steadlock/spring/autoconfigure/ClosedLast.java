package io.github.steadlock.spring.autoconfigure;

import java.util.ArrayDeque;
import java.util.Deque;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.core.PriorityOrdered;

/**
 * The bean that closes the client after all other beans are destroyed. Executors and schedulers
 * wait for their tasks during their destruction. The tasks may hold locks meanwhile, but the
 * executors' beans do not depend on the client, so Spring might close the client before them. This
 * bean is a post-processor, because Spring makes post-processors before other beans and destroys
 * them after the others.
 */
class ClosedLast implements BeanPostProcessor, PriorityOrdered, DisposableBean {
    private final Deque<AutoCloseable> resources = new ArrayDeque<>();

    /** Adds a resource. The resource that was added last is closed first. */
    <T extends AutoCloseable> T add(T resource) {
        resources.addFirst(resource);
        return resource;
    }

    @Override
    public void destroy() throws Exception {
        Exception failure = null;
        for (AutoCloseable resource : resources) {
            try {
                resource.close();
            } catch (Exception failed) {
                failure = failed;
            }
        }
        if (failure != null) {
            throw failure;
        }
    }

    @Override
    public int getOrder() {
        return HIGHEST_PRECEDENCE;
    }
}

package io.github.steadlock.spring.autoconfigure;

import java.util.ArrayDeque;
import java.util.Deque;
import org.springframework.beans.factory.DisposableBean;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.core.PriorityOrdered;

/**
 * Closes the client after all other beans are destroyed. Executors and schedulers wait in their
 * destruction for tasks, which hold locks meanwhile, and no bean of theirs depends on the client.
 * As a post-processor it is made before the others, and so it is destroyed after them.
 */
class ClosedLast implements BeanPostProcessor, PriorityOrdered, DisposableBean {
    private final Deque<AutoCloseable> resources = new ArrayDeque<>();

    /** What is added last is closed first. */
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

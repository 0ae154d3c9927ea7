package io.github.steadlock.spring.boot;

import io.github.steadlock.spring.integration.SteadlockLockRegistry;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;

/** The {@link SteadlockLockRegistry} with the interface of Spring Integration 7. */
public class DistributedLockRegistry implements LockRegistry<DistributedLock> {
    private final SteadlockLockRegistry registry;

    /** Makes a registry that returns the locks of {@code registry}. */
    public DistributedLockRegistry(SteadlockLockRegistry registry) {
        this.registry = registry;
    }

    /**
     * Returns the lock of {@code key}. The name of the lock is the prefix and the text of the key.
     * Methods with a time to live acquire the lock with a fixed lease of that length, 100 ms to 24
     * h, which is not renewed.
     *
     * @throws IllegalArgumentException if {@code key} is null
     */
    @Override
    public DistributedLock obtain(Object key) {
        return new RegisteredLock((io.github.steadlock.NamedLock) registry.obtain(key));
    }

    private record RegisteredLock(io.github.steadlock.NamedLock to) implements DistributedLock {
        @Override
        public void lock() {
            to.lock();
        }

        @Override
        public void lock(Duration lease) {
            to.lock(lease);
        }

        @Override
        public void lockInterruptibly() throws InterruptedException {
            to.lockInterruptibly();
        }

        @Override
        public boolean tryLock() {
            return to.tryLock();
        }

        @Override
        public boolean tryLock(long wait, TimeUnit unit) throws InterruptedException {
            return to.tryLock(wait, unit);
        }

        @Override
        public boolean tryLock(Duration wait, Duration lease) throws InterruptedException {
            return to.tryLock(wait, lease);
        }

        @Override
        public void unlock() {
            to.unlock();
        }

        @Override
        public Condition newCondition() {
            return to.newCondition();
        }
    }
}

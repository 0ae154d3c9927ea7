package io.github.steadlock.spring.boot;

import io.github.steadlock.spring.integration.SteadlockLockRegistry;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.Condition;
import org.springframework.integration.support.locks.DistributedLock;
import org.springframework.integration.support.locks.LockRegistry;

/** {@link SteadlockLockRegistry} in the form of Spring Integration 7. */
public class DistributedLockRegistry implements LockRegistry<DistributedLock> {
    private final SteadlockLockRegistry registry;

    /** Gives the locks of {@code registry}. */
    public DistributedLockRegistry(SteadlockLockRegistry registry) {
        this.registry = registry;
    }

    /**
     * The lock of {@code key}, whose text is the name of the lock behind the prefix. Its methods
     * with a time to live take a fixed lease of that length, which nobody renews: 100 ms to 24 h.
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

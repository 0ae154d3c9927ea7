package io.github.steadlock.spring.integration;

import io.github.steadlock.NamedLock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties.Registry.Kind;
import java.util.concurrent.locks.Lock;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * A registry of locks for Spring Integration that all instances of a program share. Lock objects
 * have no state, so the registry caches none and never has to evict any: two objects of one key are
 * the same lock.
 *
 * <p>The locks are renewed until they are unlocked. {@code lock()} waits as long as the server
 * answers, regardless of {@code steadlock.wait}.
 */
@SuppressWarnings("rawtypes") // A type parameter exists in Spring Integration 7, but not in 6.5.
public class SteadlockLockRegistry implements LockRegistry {
    private final SteadlockClient client;
    private final String prefix;
    private final Kind kind;

    /**
     * Makes the registry of a client.
     *
     * @param client the client that acquires the locks
     * @param prefix the prefix for each key; may be empty
     * @param kind the kind of lock that the registry returns
     */
    public SteadlockLockRegistry(SteadlockClient client, String prefix, Kind kind) {
        this.client = client;
        this.prefix = prefix;
        this.kind = kind;
    }

    /**
     * Returns the lock of {@code key}. The name of the lock is the prefix and the text of the key.
     *
     * @throws IllegalArgumentException if {@code key} is null
     */
    @Override
    public Lock obtain(Object key) {
        return lock(key);
    }

    /** Returns the lock of {@code key}, with the full API of Steadlock's locks. */
    protected final NamedLock lock(Object key) {
        if (key == null) {
            throw new IllegalArgumentException("the key of a lock is null");
        }
        String name = prefix + key;
        return kind == Kind.MUTEX ? client.mutex(name) : client.lock(name);
    }
}

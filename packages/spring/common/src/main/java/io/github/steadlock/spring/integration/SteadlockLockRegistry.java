package io.github.steadlock.spring.integration;

import io.github.steadlock.NamedLock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.autoconfigure.SteadlockProperties.Registry.Kind;
import java.util.concurrent.locks.Lock;
import org.springframework.integration.support.locks.LockRegistry;

/**
 * Locks for Spring Integration that all instances share. Lock objects keep nothing, so that nothing
 * is cached and nothing has to be evicted: two of one key are the same lock.
 *
 * <p>They are renewed until they are unlocked. {@code lock()} waits as long as the server answers,
 * whatever {@code steadlock.wait} says.
 */
@SuppressWarnings("rawtypes") // Spring Integration 7 has a type parameter here, 6.5 has none.
public class SteadlockLockRegistry implements LockRegistry {
    private final SteadlockClient client;
    private final String prefix;
    private final Kind kind;

    /**
     * For a client.
     *
     * @param client which takes the locks
     * @param prefix put before each key; may be empty
     * @param kind which kind of lock it gives
     */
    public SteadlockLockRegistry(SteadlockClient client, String prefix, Kind kind) {
        this.client = client;
        this.prefix = prefix;
        this.kind = kind;
    }

    /**
     * The lock of {@code key}, whose text is the name of the lock behind the prefix.
     *
     * @throws IllegalArgumentException if {@code key} is null
     */
    @Override
    public Lock obtain(Object key) {
        return lock(key);
    }

    /** The lock of {@code key} with all that Steadlock's locks have. */
    protected final NamedLock lock(Object key) {
        if (key == null) {
            throw new IllegalArgumentException("the key of a lock is null");
        }
        String name = prefix + key;
        return kind == Kind.MUTEX ? client.mutex(name) : client.lock(name);
    }
}

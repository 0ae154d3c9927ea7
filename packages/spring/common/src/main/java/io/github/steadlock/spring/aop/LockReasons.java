package io.github.steadlock.spring.aop;

import io.github.steadlock.SteadlockClient;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * The reasons for the locks that methods with {@link io.github.steadlock.spring.DistributedLock}
 * hold or wait for at this moment, from the annotations. A bean for code that lists locks.
 */
public class LockReasons {
    private final ConcurrentHashMap<Key, Entry> entries = new ConcurrentHashMap<>();

    /**
     * Returns the {@link io.github.steadlock.spring.DistributedLock#reason()} of a method that
     * holds or waits for the lock.
     *
     * @param client the client of the lock
     * @param lockName the name of the lock, without the key prefix of the client
     * @return the reason of the first such method that has one, or empty if none has
     */
    public Optional<String> of(SteadlockClient client, String lockName) {
        return Optional.ofNullable(entries.get(new Key(client, lockName))).map(Entry::reason);
    }

    void begin(LockedMethod method, LockTarget target) {
        if (!method.reason.isEmpty()) {
            target.names()
                    .forEach(
                            name ->
                                    entries.merge(
                                            new Key(target.client(), name),
                                            new Entry(method.reason, 1),
                                            (old, one) -> old.plus(1)));
        }
    }

    void end(LockedMethod method, LockTarget target) {
        if (!method.reason.isEmpty()) {
            target.names()
                    .forEach(
                            name ->
                                    entries.computeIfPresent(
                                            new Key(target.client(), name),
                                            (key, old) -> old.count == 1 ? null : old.plus(-1)));
        }
    }

    private record Key(SteadlockClient client, String lockName) {}

    private record Entry(String reason, int count) {
        Entry plus(int change) {
            return new Entry(reason, count + change);
        }
    }
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.SteadlockClient;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/**
 * Why the locks are needed that methods with {@link io.github.steadlock.spring.DistributedLock}
 * hold or wait for at this moment, as the annotations say it. A bean, for those who list locks.
 */
public class LockReasons {
    private final ConcurrentHashMap<Key, Entry> entries = new ConcurrentHashMap<>();

    /**
     * The {@link io.github.steadlock.spring.DistributedLock#reason()} of a method that holds or
     * waits for the lock.
     *
     * @param client whose lock it is
     * @param lockName as the client knows it, without its key prefix
     * @return empty if no method does, or it says none; of several, that of the first
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

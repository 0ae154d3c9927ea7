package io.github.steadlock.spring.aop;

import io.github.steadlock.LockOptions;
import io.github.steadlock.NamedLock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.LockKind;
import java.util.Collections;
import java.util.List;

/**
 * The lock of one call: its kind and its names, of which there are several if it is several locks
 * as one.
 *
 * @param client whose lock it is: those of another client are others, whatever their names
 * @param limit how many permits there are, of a semaphore
 */
record LockTarget(SteadlockClient client, LockKind kind, List<String> names, int limit) {
    /** What a caller that holds one lock has to do for another one. */
    enum Relation {
        /** Acquire it like anybody else. */
        INDEPENDENT,
        /** Re-enter it by the lease that it holds. */
        REENTRANT,
        /** Nothing: it would wait for itself. */
        KEPT_OUT
    }

    /** The lock itself. */
    NamedLock lock(LockOptions options) {
        if (names.size() == 1) {
            return one(names.get(0), options);
        }
        List<NamedLock> members =
                names.stream().map(name -> one(name, LockOptions.DEFAULT)).toList();
        return client.multiLock(members, options);
    }

    /** For callers without a thread of their own, whom the library does not know again. */
    Relation to(LockTarget held) {
        if (client != held.client
                || isReadWrite() != held.isReadWrite()
                || kind == LockKind.SEMAPHORE
                || held.kind == LockKind.SEMAPHORE
                || (kind == LockKind.READ && held.kind == LockKind.READ)
                || Collections.disjoint(names, held.names)) {
            return Relation.INDEPENDENT;
        }
        boolean isSingle = names.size() == 1 && held.names.size() == 1;
        if (!isSingle || kind == LockKind.MUTEX || held.kind == LockKind.READ) {
            return Relation.KEPT_OUT;
        }
        return Relation.REENTRANT;
    }

    /**
     * Whether a thread that holds it may acquire it again. Several locks as one may be, whatever
     * they are.
     */
    boolean isReenteredByThread() {
        return names.size() > 1 || (kind != LockKind.MUTEX && kind != LockKind.SEMAPHORE);
    }

    /** As people read it. */
    String shown() {
        return String.join(", ", names);
    }

    private boolean isReadWrite() {
        return kind == LockKind.READ || kind == LockKind.WRITE;
    }

    private NamedLock one(String name, LockOptions options) {
        return switch (kind) {
            case LOCK -> client.lock(name, options);
            case FAIR -> client.fairLock(name, options);
            case MUTEX -> client.mutex(name, options);
            case READ -> client.readWriteLock(name, options).readLock();
            case WRITE -> client.readWriteLock(name, options).writeLock();
            case SEMAPHORE -> client.semaphore(name, limit, options).permits(1);
        };
    }
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.LockOptions;
import io.github.steadlock.NamedLock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.LockKind;
import java.util.Collections;
import java.util.List;

/**
 * The lock of one call: its kind and its names. A composite lock has several names.
 *
 * @param client the client of the lock; locks of another client are different locks, even with the
 *     same name
 * @param limit the number of permits, for a semaphore
 */
record LockTarget(SteadlockClient client, LockKind kind, List<String> names, int limit) {
    /** The way in which the caller that holds one lock must acquire another one. */
    enum Relation {
        /** Acquire the lock like any other caller. */
        INDEPENDENT,
        /** Re-enter the lock by the held lease. */
        REENTRANT,
        /** Not at all: the caller would wait for itself. */
        EXCLUDED
    }

    NamedLock lock(LockOptions options) {
        if (names.size() == 1) {
            return one(names.get(0), options);
        }
        List<NamedLock> members =
                names.stream().map(name -> one(name, LockOptions.DEFAULT)).toList();
        return client.multiLock(members, options);
    }

    /**
     * Returns the relation of this lock to a held one, for a caller that is no thread. {@link
     * EnclosingLease} has the exceptions for threads.
     */
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
            return Relation.EXCLUDED;
        }
        return Relation.REENTRANT;
    }

    /**
     * Returns whether a thread that holds this lock can re-enter it. A composite lock can be
     * re-entered regardless of the kinds of its members. Does not consider RedLock, whose client
     * refuses a re-entry itself.
     */
    boolean isReenteredByThread() {
        return names.size() > 1 || (kind != LockKind.MUTEX && kind != LockKind.SEMAPHORE);
    }

    /** Returns the name for people. */
    String displayName() {
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

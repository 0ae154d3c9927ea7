package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ConcurrentLinkedDeque;

/**
 * The leases by which annotated methods run on each thread, the innermost first. For {@link
 * io.github.steadlock.spring.CurrentLease}; programs use that.
 */
public final class ThreadLeases {
    // A transaction may complete on another thread, and its leases leave the list there.
    private static final ThreadLocal<Deque<HeldLease>> HELD = new ThreadLocal<>();

    private ThreadLeases() {}

    /** The innermost lease of the calling thread. */
    public static Optional<Lease> current() {
        Deque<HeldLease> held = HELD.get();
        return held == null
                ? Optional.empty()
                : Optional.ofNullable(held.peekFirst()).map(HeldLease::lease);
    }

    /**
     * Adds a lease of the calling thread, which acts as its owner if no thread acquired it. The
     * result takes it away, on any thread.
     */
    static Runnable add(HeldLease lease) {
        Lease.Scope scope = lease.isOfThread() ? () -> {} : lease.lease().makeCurrent();
        Deque<HeldLease> held = HELD.get();
        if (held == null) {
            held = new ConcurrentLinkedDeque<>();
            HELD.set(held);
        }
        held.addFirst(lease);
        Deque<HeldLease> list = held;
        return () -> {
            scope.close();
            list.removeIf(entry -> entry == lease);
            if (list.isEmpty() && HELD.get() == list) {
                HELD.remove();
            }
        };
    }

    static Iterable<HeldLease> all() {
        Deque<HeldLease> held = HELD.get();
        return held == null ? List.of() : held;
    }

    /**
     * Throws {@link io.github.steadlock.spring.CommitRefusedException} if one of the thread's
     * leases is not valid.
     */
    static void requireValid() {
        all().forEach(HeldLease::requireValid);
    }
}

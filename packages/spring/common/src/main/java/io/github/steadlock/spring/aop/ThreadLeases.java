package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.ConcurrentLinkedDeque;

/**
 * The leases of the annotated methods that run on each thread, innermost first. Public for {@link
 * io.github.steadlock.spring.CurrentLease}, which programs should use instead.
 */
public final class ThreadLeases {
    // The lists are concurrent, because a transaction may complete on another thread, which then
    // removes the leases.
    private static final ThreadLocal<Deque<HeldLease>> HELD = new ThreadLocal<>();

    private ThreadLeases() {}

    /** Returns the innermost lease of the calling thread. */
    public static Optional<Lease> current() {
        Deque<HeldLease> held = HELD.get();
        return held == null
                ? Optional.empty()
                : Optional.ofNullable(held.peekFirst()).map(HeldLease::lease);
    }

    /**
     * Adds a lease of the calling thread. If no thread acquired the lease, the calling thread acts
     * as its owner. Running the result removes the lease, on any thread.
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
     * Throws {@link io.github.steadlock.spring.CommitRefusedException} if a lease of the thread is
     * not valid.
     */
    static void requireValid() {
        all().forEach(HeldLease::requireValid);
    }
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.Lease;
import java.util.ArrayList;
import java.util.List;
import reactor.core.publisher.Mono;
import reactor.util.context.Context;
import reactor.util.context.ContextView;

/**
 * The leases of the annotated methods that run in a subscriber's context, innermost first. Public
 * for {@link io.github.steadlock.spring.CurrentLease}, which programs should use instead.
 */
public final class ContextLeases {
    private static final Object KEY = ContextLeases.class;

    private ContextLeases() {}

    /** Returns the innermost lease of the subscriber's context. */
    public static Mono<Lease> current() {
        return Mono.deferContextual(
                context ->
                        Mono.justOrEmpty(of(context).stream().findFirst().map(HeldLease::lease)));
    }

    static List<HeldLease> of(ContextView context) {
        return context.getOrDefault(KEY, List.of());
    }

    static Context with(HeldLease lease, Context context) {
        List<HeldLease> held = new ArrayList<>();
        held.add(lease);
        held.addAll(of(context));
        return context.put(KEY, List.copyOf(held));
    }
}

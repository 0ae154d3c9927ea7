package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.InvalidArgumentException;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.micrometer.SteadlockMetrics;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Tag;
import io.micrometer.core.instrument.binder.MeterBinder;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.slf4j.LoggerFactory;

/**
 * The metrics of all clients. If there are several clients, their metrics have the tag {@code
 * client}.
 */
final class ClientMetrics implements MeterBinder, AutoCloseable {
    private final List<SteadlockMetrics> all = new ArrayList<>();

    /**
     * Makes the metrics of {@code clients}, which are given by bean name. Leaves out a client that
     * the program made without metrics.
     */
    ClientMetrics(Map<String, SteadlockClient> clients) {
        clients.forEach(
                (name, client) -> {
                    List<Tag> tags =
                            clients.size() == 1 ? List.of() : List.of(Tag.of("client", name));
                    try {
                        // A mock in a test returns null.
                        if (client.metrics() != null) {
                            all.add(new SteadlockMetrics(client, tags));
                        }
                    } catch (InvalidArgumentException none) {
                        LoggerFactory.getLogger("io.github.steadlock")
                                .info("no metrics of {}: it was made without metrics()", name);
                    }
                });
    }

    @Override
    public void bindTo(MeterRegistry registry) {
        all.forEach(metrics -> metrics.bindTo(registry));
    }

    @Override
    public void close() {
        all.forEach(SteadlockMetrics::close);
    }
}

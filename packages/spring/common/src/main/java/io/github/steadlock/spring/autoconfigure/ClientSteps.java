package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.SteadlockBuilder;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.BiFunction;
import org.springframework.boot.ssl.NoSuchSslBundleException;
import org.springframework.boot.ssl.SslBundle;
import org.springframework.boot.ssl.SslBundles;
import org.springframework.core.env.Environment;

/**
 * The settings of all properties as steps. To find a wrong property, {@link ClientFactory} makes
 * clients from the first step, the first two, and so on. Each needs a server, so the steps of the
 * server come first.
 */
final class ClientSteps implements SteadlockServer {
    private static final String PREFIX = Steps.PREFIX;
    private static final String DEFAULT = "redis://localhost:6379";
    private static final String MEMORY = "memory://";
    private static final String APPLICATION_NAME = "spring.application.name";

    private final SteadlockProperties properties;
    private final SpringRedis redis;
    private final Steps steps = new Steps();
    private final List<String> serverProperties = new ArrayList<>();
    private final List<String> shownUrls = new ArrayList<>();
    private TrustFile trust;
    private SslBundle bundle;
    private String bundleProperty;

    /**
     * Whether the server is that of Spring's configuration, or the default. If so, Spring's other
     * properties apply too.
     */
    private boolean isSpring;

    ClientSteps(
            SteadlockProperties properties,
            Environment environment,
            SteadlockConnectionDetails details,
            SslBundles bundles,
            boolean isInMemory,
            boolean hasRegistry) {
        this.properties = properties;
        this.redis = SpringRedis.of(environment);
        if (isInMemory) {
            addOnly(MEMORY, "steadlock.url");
        } else {
            addServer(details, bundles);
            addTls();
            steps.add("address-map", properties.addressMap(), SteadlockBuilder::addressMap);
        }
        addTimeouts();
        properties.addTo(steps);
        addMetrics(hasRegistry);
        addLabel(environment);
    }

    List<Step> all() {
        return steps.all();
    }

    /** Returns the names of the properties that name the server. */
    List<String> serverProperties() {
        return serverProperties;
    }

    @Override
    public String server() {
        return String.join(", ", shownUrls);
    }

    /** Returns Spring's property for a connection pool, or null if there is none. */
    String pool() {
        return isSpring ? redis.pool() : null;
    }

    /** Returns the file with the authorities of an SSL bundle, or null if there is none. */
    Path trustFile() {
        return trust == null ? null : trust.path();
    }

    /**
     * Removes the file with the authorities. Called by {@link ClosedLast}. This class is not
     * AutoCloseable, because Spring would close it too early.
     */
    void close() {
        if (trust != null) {
            trust.close();
        }
    }

    private void addServer(SteadlockConnectionDetails details, SslBundles bundles) {
        ServerSteps.Parts parts = ServerSteps.Parts.of(properties);
        parts.withoutPlace().ifPresent(name -> refuseBeside(details, PREFIX + "." + name));
        ServerSteps.Named own = ServerSteps.of(PREFIX, parts);
        isSpring = own.steps().isEmpty();
        if (!isSpring) {
            addServer(own);
        } else if (details != null) {
            addOnly(details.url(), details.origin());
            bundle = details.sslBundle();
            bundleProperty = details.origin();
        } else {
            ServerSteps.Named spring =
                    ServerSteps.of(SpringRedis.PREFIX, ServerSteps.Parts.of(redis));
            if (spring.steps().isEmpty()) {
                addOnly(DEFAULT, PREFIX + ".url");
            } else {
                addServer(spring);
                useBundle(SpringRedis.PREFIX + ".ssl.bundle", redis.ssl().bundle(), bundles);
            }
        }
        useBundle(PREFIX + ".ssl.bundle", properties.ssl().bundle(), bundles);
    }

    /**
     * Refuses a property of the login, the database or TLS if only Spring's configuration names a
     * server. If Spring's configuration names none either, the property is for {@code localhost}.
     */
    private void refuseBeside(SteadlockConnectionDetails details, String property) {
        boolean isOther = details != null && !details.origin().startsWith(SpringRedis.PREFIX);
        if (isOther || redis.namesServer()) {
            String other = isOther ? details.origin() : SpringRedis.PREFIX + ".*";
            throw SteadlockStartException.ofProperties(
                    List.of(property),
                    null,
                    "it does not say of which server, and " + other + " names one",
                    "Give steadlock.host too, or leave " + property + " out.");
        }
    }

    private void addOnly(String url, String property) {
        Step step = new Step(property, RedisUrl.shown(url), builder -> builder.url(url));
        addServer(new ServerSteps.Named(List.of(step), List.of(url)));
    }

    private void addServer(ServerSteps.Named server) {
        steps.addAll(server.steps());
        server.steps().forEach(step -> serverProperties.addAll(step.properties()));
        server.urls().forEach(url -> shownUrls.add(RedisUrl.shown(url)));
    }

    private void useBundle(String property, String name, SslBundles bundles) {
        if (name == null) {
            return;
        }
        bundleProperty = property;
        try {
            bundle = bundles.getBundle(name);
        } catch (NoSuchSslBundleException missing) {
            throw SteadlockStartException.ofProperties(
                    List.of(property),
                    name,
                    "there is no SSL bundle of this name",
                    "Give " + property + " the name of one below spring.ssl.bundle.");
        }
    }

    private void addTls() {
        SteadlockProperties.Ssl ssl = properties.ssl();
        if (bundle != null && ssl.caFile() != null && bundleProperty.startsWith(PREFIX)) {
            throw SteadlockStartException.ofProperties(
                    List.of(PREFIX + ".ssl.ca-file", bundleProperty),
                    null,
                    "the authorities to trust are named in two ways",
                    "Leave one of them out.");
        }
        boolean hasCertificate = ssl.certFile() != null && ssl.keyFile() != null;
        if (bundle != null && ssl.caFile() == null) {
            trust = TrustFile.of(bundle, bundleProperty, hasCertificate);
            if (trust != null) {
                Path file = trust.path();
                steps.add(new Step(bundleProperty, null, builder -> builder.tlsCaFile(file)));
            }
        }
        steps.add("ssl.ca-file", ssl.caFile(), path(SteadlockBuilder::tlsCaFile));
        if (hasCertificate) {
            steps.add(
                    new Step(
                            List.of(PREFIX + ".ssl.cert-file", PREFIX + ".ssl.key-file"),
                            null,
                            builder ->
                                    builder.tlsCertFile(Path.of(ssl.certFile()))
                                            .tlsKeyFile(Path.of(ssl.keyFile()))));
        } else {
            steps.add("ssl.cert-file", ssl.certFile(), path(SteadlockBuilder::tlsCertFile));
            steps.add("ssl.key-file", ssl.keyFile(), path(SteadlockBuilder::tlsKeyFile));
        }
        steps.add("ssl.server-name", ssl.serverName(), SteadlockBuilder::tlsServerName);
    }

    private void addTimeouts() {
        addOr(
                "command-timeout",
                properties.commandTimeout(),
                "timeout",
                redis.timeout(),
                SteadlockBuilder::commandTimeout);
        addOr(
                "connect-timeout",
                properties.connectTimeout(),
                "connect-timeout",
                redis.connectTimeout(),
                SteadlockBuilder::connectTimeout);
    }

    private void addMetrics(boolean hasRegistry) {
        SteadlockProperties.Metrics metrics = properties.metrics();
        boolean isWanted = hasRegistry || metrics.groups() != null || metrics.queues() != null;
        if (metrics.enabled() == null ? isWanted : metrics.enabled()) {
            steps.add("metrics.enabled", true, (builder, enabled) -> builder.metrics());
        }
        steps.add("metrics.groups", metrics.groups(), SteadlockBuilder::metricsGroups);
        steps.add(
                "metrics.queues",
                metrics.queues(),
                (builder, queues) -> builder.metricsQueues(queues.toArray(String[]::new)));
    }

    private void addLabel(Environment environment) {
        steps.add("client-info", properties.clientInfo(), SteadlockBuilder::clientInfo);
        if (properties.clientLabel() != null) {
            steps.add("client-label", properties.clientLabel(), SteadlockBuilder::clientLabel);
        } else if (!Boolean.FALSE.equals(properties.clientInfo())) {
            boolean hasName = isSpring && redis.clientName() != null;
            String property = hasName ? SpringRedis.PREFIX + ".client-name" : APPLICATION_NAME;
            String label = hasName ? redis.clientName() : environment.getProperty(property);
            if (label != null) {
                steps.add(new Step(property, label, builder -> builder.clientLabel(label)));
            }
        }
    }

    /**
     * Adds a property. If the property is not set and Spring's configuration names the server, adds
     * Spring's own property.
     */
    private <T> void addOr(
            String name,
            T own,
            String springsName,
            T springs,
            BiFunction<SteadlockBuilder, T, SteadlockBuilder> apply) {
        if (own == null && isSpring) {
            steps.addNamed(SpringRedis.PREFIX + "." + springsName, springs, apply);
        } else {
            steps.add(name, own, apply);
        }
    }

    private static BiFunction<SteadlockBuilder, String, SteadlockBuilder> path(
            BiFunction<SteadlockBuilder, Path, SteadlockBuilder> apply) {
        return (builder, file) -> apply.apply(builder, Path.of(file));
    }
}

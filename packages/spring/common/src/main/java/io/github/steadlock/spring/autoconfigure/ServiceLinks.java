package io.github.steadlock.spring.autoconfigure;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.springframework.boot.context.properties.source.ConfigurationProperty;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.boot.context.properties.source.ConfigurationPropertySource;
import org.springframework.boot.context.properties.source.ConfigurationPropertyState;
import org.springframework.boot.context.properties.source.IterableConfigurationPropertySource;
import org.springframework.core.env.SystemEnvironmentPropertySource;

/**
 * The environment variables by which Kubernetes and Docker pass the addresses of services to a
 * container. For a service {@code steadlock}, {@code STEADLOCK_PORT} is {@code
 * tcp://10.0.0.1:6379}, which is no value for {@code steadlock.port}. A service {@code
 * steadlock-address-map} would add entries to the map {@code steadlock.address-map}.
 */
final class ServiceLinks {
    /** Names that are links regardless of their value. No property of Steadlock has such a name. */
    private static final Pattern NAME =
            Pattern.compile(
                    ".+_SERVICE_HOST"
                            + "|.+_SERVICE_PORT(_.+)?"
                            + "|.+_PORT_\\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?(_(START|END))?"
                            + "|.+_ENV_.+");

    private static final Pattern ADDRESS = Pattern.compile("(tcp|udp|sctp)://.*");

    private ServiceLinks() {}

    /** Returns the same sources, with the links left out of the environment variables. */
    static List<ConfigurationPropertySource> without(
            Iterable<ConfigurationPropertySource> sources) {
        var all = new ArrayList<ConfigurationPropertySource>();
        for (ConfigurationPropertySource source : sources) {
            boolean isOfVariables = isEnvironment(source);
            if (isOfVariables && source instanceof IterableConfigurationPropertySource variables) {
                all.add(new Filtered(variables));
            } else {
                all.add(source);
            }
        }
        return all;
    }

    /** Returns whether a source has a link that looks like a property below {@code prefix}. */
    static boolean areAmong(
            Iterable<ConfigurationPropertySource> sources, ConfigurationPropertyName prefix) {
        for (ConfigurationPropertySource source : sources) {
            if (isEnvironment(source)
                    && source instanceof IterableConfigurationPropertySource variables
                    && variables.stream()
                            .filter(prefix::isAncestorOf)
                            .anyMatch(name -> isLink(variables.getConfigurationProperty(name)))) {
                return true;
            }
        }
        return false;
    }

    /** Returns whether the properties of {@code source} are environment variables. */
    static boolean isEnvironment(ConfigurationPropertySource source) {
        return source.getUnderlyingSource() instanceof SystemEnvironmentPropertySource;
    }

    /**
     * Returns the variable of a property: {@code A_PORT_1} for {@code a.port[1]}.
     *
     * @param dash the replacement of a dash: an empty text, or an underscore in the older spelling
     */
    static String variable(ConfigurationPropertyName name, String dash) {
        return name.toString()
                .replace("-", dash)
                .replace("]", "")
                .replaceAll("[.\\[]", "_")
                .toUpperCase(Locale.ROOT);
    }

    private static boolean isLink(ConfigurationProperty property) {
        if (property == null) {
            return false;
        }
        String variable = variable(property.getName(), "_");
        String value = String.valueOf(property.getValue());
        return NAME.matcher(variable).matches()
                || (variable.endsWith("_PORT") && ADDRESS.matcher(value).matches())
                // Docker sets this variable to the name of the other container.
                || (variable.endsWith("_NAME") && value.startsWith("/"));
    }

    private record Filtered(IterableConfigurationPropertySource all)
            implements IterableConfigurationPropertySource {
        @Override
        public Stream<ConfigurationPropertyName> stream() {
            return all.stream().filter(name -> getConfigurationProperty(name) != null);
        }

        @Override
        public ConfigurationProperty getConfigurationProperty(ConfigurationPropertyName name) {
            ConfigurationProperty property = all.getConfigurationProperty(name);
            return isLink(property) ? null : property;
        }

        /**
         * Delegates, because the source also knows older spellings of names, unlike a search by
         * {@link #stream}.
         */
        @Override
        public ConfigurationPropertyState containsDescendantOf(ConfigurationPropertyName name) {
            return all.containsDescendantOf(name);
        }

        @Override
        public Object getUnderlyingSource() {
            return all.getUnderlyingSource();
        }
    }
}

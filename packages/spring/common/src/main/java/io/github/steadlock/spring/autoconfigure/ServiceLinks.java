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
 * The variables by which Kubernetes and Docker tell a container where a service is. For a service
 * {@code steadlock}, {@code STEADLOCK_PORT} is {@code tcp://10.0.0.1:6379}, which is not what
 * {@code steadlock.port} says. A service {@code steadlock-address-map} would add to that map.
 */
final class ServiceLinks {
    /** These are links whatever their value is; no property of Steadlock has such a name. */
    private static final Pattern NAME =
            Pattern.compile(
                    ".+_SERVICE_HOST"
                            + "|.+_SERVICE_PORT(_.+)?"
                            + "|.+_PORT_\\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?(_(START|END))?"
                            + "|.+_ENV_.+");

    private static final Pattern ADDRESS = Pattern.compile("(tcp|udp|sctp)://.*");

    private ServiceLinks() {}

    /** The same sources, of which those of environment variables do not have the links. */
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

    /** Whether a source has a link that looks like a property below {@code prefix}. */
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

    /** Whether the properties of {@code source} are environment variables. */
    static boolean isEnvironment(ConfigurationPropertySource source) {
        return source.getUnderlyingSource() instanceof SystemEnvironmentPropertySource;
    }

    /**
     * The variable of a property: {@code A_PORT_1} of {@code a.port[1]}.
     *
     * @param dash what stands in place of a dash: nothing, or an underscore in the older spelling
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
                // Docker's name of the other container.
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

        /** Knows older spellings of names, which a search by {@link #stream} does not. */
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

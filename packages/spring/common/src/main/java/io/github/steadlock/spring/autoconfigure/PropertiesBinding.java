package io.github.steadlock.spring.autoconfigure;

import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.context.properties.ConfigurationPropertiesBindHandlerAdvisor;
import org.springframework.boot.context.properties.bind.AbstractBindHandler;
import org.springframework.boot.context.properties.bind.BindContext;
import org.springframework.boot.context.properties.bind.BindHandler;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.bind.PropertySourcesPlaceholdersResolver;
import org.springframework.boot.context.properties.bind.UnboundConfigurationPropertiesException;
import org.springframework.boot.context.properties.source.ConfigurationProperty;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.boot.context.properties.source.ConfigurationPropertySource;
import org.springframework.boot.context.properties.source.IterableConfigurationPropertySource;
import org.springframework.core.env.EnumerablePropertySource;
import org.springframework.core.env.PropertySource;
import org.springframework.core.env.StandardEnvironment;

/**
 * The binding of {@link SteadlockProperties}, which leaves out the variables of {@link
 * ServiceLinks}. Also looks for unknown names in environment variables and system properties, where
 * Spring Boot does not look for them.
 *
 * <p>An unknown system property stops the start. An unknown variable stops the start if its name is
 * close to that of a property. Other unknown variables may belong to another program, so they only
 * cause a warning.
 */
final class PropertiesBinding implements ConfigurationPropertiesBindHandlerAdvisor {
    private static final Logger log = LoggerFactory.getLogger("io.github.steadlock");

    /** The variables that {@code steadlock run} sets for the program that it starts. */
    private static final Set<String> OF_COMMAND = Set.of("STEADLOCK_LOCK", "STEADLOCK_TOKEN");

    @Override
    public BindHandler apply(BindHandler handler) {
        return new Handler(handler);
    }

    private static final class Handler extends AbstractBindHandler {
        private final BindHandler parent;

        /**
         * Whether another binder must bind the properties, because Spring Boot's own binder sees
         * service links.
         */
        private boolean isApart;

        Handler(BindHandler parent) {
            super(parent);
            this.parent = parent;
        }

        /**
         * Returns null if another binder must bind the properties. Spring Boot then makes an object
         * without properties, which {@link #onCreate} replaces.
         */
        @Override
        public <T> Bindable<T> onStart(
                ConfigurationPropertyName name, Bindable<T> target, BindContext context) {
            isApart = isOurs(target) && ServiceLinks.areAmong(context.getSources(), name);
            return isApart ? null : super.onStart(name, target, context);
        }

        @Override
        public Object onCreate(
                ConfigurationPropertyName name,
                Bindable<?> target,
                BindContext context,
                Object result) {
            return isApart
                    ? withoutLinks(context.getSources()).bindOrCreate(name, target, parent)
                    : super.onCreate(name, target, context, result);
        }

        @Override
        public void onFinish(
                ConfigurationPropertyName name,
                Bindable<?> target,
                BindContext context,
                Object result)
                throws Exception {
            if (!isApart) {
                super.onFinish(name, target, context, result);
            }
            if (isOurs(target)) {
                checkNames(name, context.getSources());
            }
        }

        private static boolean isOurs(Bindable<?> target) {
            return target.getType().resolve() == SteadlockProperties.class;
        }
    }

    /** Returns a binder like Spring Boot's own, but without service links in its sources. */
    private static Binder withoutLinks(Iterable<ConfigurationPropertySource> sources) {
        List<PropertySource<?>> all =
                StreamSupport.stream(sources.spliterator(), false)
                        .map(ConfigurationPropertySource::getUnderlyingSource)
                        .<PropertySource<?>>map(source -> (PropertySource<?>) source)
                        .toList();
        return new Binder(
                ServiceLinks.without(sources), new PropertySourcesPlaceholdersResolver(all));
    }

    private static void checkNames(
            ConfigurationPropertyName root, Iterable<ConfigurationPropertySource> sources) {
        var wrong = new TreeSet<ConfigurationProperty>();
        var others = new TreeSet<ConfigurationProperty>();
        for (ConfigurationPropertySource source : ServiceLinks.without(sources)) {
            boolean isEnvironment = ServiceLinks.isEnvironment(source);
            ConfigurationProperty ofRoot = source.getConfigurationProperty(root);
            // A file may contain the key itself with nothing below it.
            if (ofRoot != null && !String.valueOf(ofRoot.getValue()).isBlank()) {
                (isEnvironment ? others : wrong).add(ofRoot);
            }
            if ((isEnvironment || isOfSystem(source))
                    && source instanceof IterableConfigurationPropertySource all) {
                all.stream()
                        .filter(root::isAncestorOf)
                        .filter(name -> !PropertyNames.contain(name, isEnvironment))
                        .filter(name -> !OF_COMMAND.contains(ServiceLinks.variable(name, "")))
                        .filter(name -> !isInPlaceholder(name, sources))
                        .forEach(
                                name ->
                                        (isEnvironment && PropertyNames.near(name).isEmpty()
                                                        ? others
                                                        : wrong)
                                                .add(all.getConfigurationProperty(name)));
            }
        }
        if (!wrong.isEmpty()) {
            throw new UnboundConfigurationPropertiesException(wrong);
        }
        if (!others.isEmpty()) {
            log.warn(
                    "not properties of Steadlock, and without effect: {}",
                    others.stream()
                            .map(UnknownPropertyFailureAnalyzer::shown)
                            .collect(Collectors.joining(", ")));
        }
    }

    private static boolean isOfSystem(ConfigurationPropertySource source) {
        return source.getUnderlyingSource() instanceof PropertySource<?> properties
                && properties
                        .getName()
                        .equals(StandardEnvironment.SYSTEM_PROPERTIES_PROPERTY_SOURCE_NAME);
    }

    /**
     * Returns whether a property refers to {@code name} by a placeholder, such as {@code
     * ${STEADLOCK_MY_SERVER}}. The variable is the program's own then.
     */
    private static boolean isInPlaceholder(
            ConfigurationPropertyName name, Iterable<ConfigurationPropertySource> sources) {
        List<String> texts =
                List.of("${" + ServiceLinks.variable(name, ""), "${" + name.toString());
        for (ConfigurationPropertySource source : sources) {
            if (!ServiceLinks.isEnvironment(source)
                    && source.getUnderlyingSource() instanceof EnumerablePropertySource<?> all) {
                for (String property : all.getPropertyNames()) {
                    String value = String.valueOf(all.getProperty(property));
                    if (texts.stream()
                            .anyMatch(it -> value.contains(it + "}") || value.contains(it + ":"))) {
                        return true;
                    }
                }
            }
        }
        return false;
    }
}

package io.github.steadlock.spring.autoconfigure;

import java.util.HashMap;
import java.util.Map;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.MapPropertySource;
import org.springframework.core.env.StandardEnvironment;
import org.springframework.core.env.SystemEnvironmentPropertySource;

/** Programs whose environment variables and system properties are those that a test gives. */
final class Variables {
    private Variables() {}

    /** Puts {@code NAME=value} in place of all variables. */
    static void set(ConfigurableEnvironment environment, String... variables) {
        String name = StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME;
        environment
                .getPropertySources()
                .replace(name, new SystemEnvironmentPropertySource(name, map(variables)));
    }

    /** Puts {@code name=value} in place of all system properties. */
    static void setSystem(ConfigurableEnvironment environment, String... properties) {
        String name = StandardEnvironment.SYSTEM_PROPERTIES_PROPERTY_SOURCE_NAME;
        environment.getPropertySources().replace(name, source(name, properties));
    }

    /** A source of {@code name=value}, as of a file. */
    static MapPropertySource source(String name, String... properties) {
        return new MapPropertySource(name, map(properties));
    }

    /** A context with the client alone. */
    static ApplicationContextRunner runner(String... variables) {
        return Contexts.runner().withInitializer(context -> set(context.getEnvironment(), variables));
    }

    private static Map<String, Object> map(String... entries) {
        var map = new HashMap<String, Object>();
        for (String entry : entries) {
            map.put(entry.split("=", 2)[0], entry.split("=", 2)[1]);
        }
        return map;
    }
}

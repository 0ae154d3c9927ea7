package io.github.steadlock.spring.autoconfigure;

import java.util.HashMap;
import java.util.Map;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.MapPropertySource;
import org.springframework.core.env.StandardEnvironment;
import org.springframework.core.env.SystemEnvironmentPropertySource;

/** Programs whose environment variables and system properties come from the test. */
final class Variables {
    private Variables() {}

    /** Replaces all variables by {@code NAME=value}. */
    static void set(ConfigurableEnvironment environment, String... variables) {
        String name = StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME;
        environment
                .getPropertySources()
                .replace(name, new SystemEnvironmentPropertySource(name, map(variables)));
    }

    /** Replaces all system properties by {@code name=value}. */
    static void setSystem(ConfigurableEnvironment environment, String... properties) {
        String name = StandardEnvironment.SYSTEM_PROPERTIES_PROPERTY_SOURCE_NAME;
        environment.getPropertySources().replace(name, source(name, properties));
    }

    /** Returns a source of {@code name=value}, like that of a file. */
    static MapPropertySource source(String name, String... properties) {
        return new MapPropertySource(name, map(properties));
    }

    /** Returns a context that has only the client. */
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

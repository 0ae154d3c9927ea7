package io.github.steadlock.spring.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.SteadlockBuilder;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;
import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.springframework.boot.context.properties.bind.DataObjectPropertyName;

/** Compares the names of the properties with those of the metadata and of the builder. */
class PropertyNamesTest {
    /** The properties that do not belong to the client, so the builder has no method for them. */
    private static final Set<String> NOT_OF_CLIENT =
            Set.of("enabled", "wait", "annotation", "registry", "sentinel", "cluster");

    /** Methods of the builder, each with a property in a group that has another name. */
    private static final Map<String, String> IN_GROUPS =
            Map.of(
                    "tls-ca-file", "ssl.ca-file",
                    "tls-cert-file", "ssl.cert-file",
                    "tls-key-file", "ssl.key-file",
                    "tls-server-name", "ssl.server-name",
                    "metrics", "metrics.enabled",
                    "metrics-groups", "metrics.groups",
                    "metrics-queues", "metrics.queues",
                    "retry-interval", "retry-interval.min",
                    "breaker", "breaker.failures");

    @Test
    void are_those_of_the_metadata() throws Exception {
        Set<String> described =
                PropertiesTableTest.properties().stream()
                        .map(property -> (String) property.get("name"))
                        .filter(name -> name.startsWith("steadlock."))
                        .collect(Collectors.toSet());
        assertThat(PropertyNames.all()).containsExactlyInAnyOrderElementsOf(described);
    }

    @Test
    void are_those_of_the_builder() {
        Set<String> ofBuilder =
                Arrays.stream(SteadlockBuilder.class.getDeclaredMethods())
                        .filter(method -> Modifier.isPublic(method.getModifiers()))
                        .filter(method -> method.getReturnType() == SteadlockBuilder.class)
                        .map(Method::getName)
                        .map(DataObjectPropertyName::toDashedForm)
                        .filter(name -> !name.equals("callback-executor"))
                        .map(name -> "steadlock." + IN_GROUPS.getOrDefault(name, name))
                        .collect(Collectors.toSet());
        var ofClient = new TreeSet<String>();
        for (String name : PropertyNames.all()) {
            if (!NOT_OF_CLIENT.contains(name.split("\\.")[1])) {
                ofClient.add(name);
            }
        }
        assertThat(ofClient).containsAll(ofBuilder);
        ofClient.removeAll(ofBuilder);
        assertThat(ofClient)
                .containsExactly(
                        "steadlock.breaker.pause",
                        "steadlock.retry-interval.max",
                        "steadlock.ssl.bundle",
                        "steadlock.ssl.enabled");
    }
}

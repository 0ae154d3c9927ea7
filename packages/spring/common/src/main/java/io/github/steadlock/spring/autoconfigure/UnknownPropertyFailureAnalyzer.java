package io.github.steadlock.spring.autoconfigure;

import java.util.List;
import java.util.stream.Collectors;
import org.springframework.boot.context.properties.bind.BindException;
import org.springframework.boot.context.properties.bind.UnboundConfigurationPropertiesException;
import org.springframework.boot.context.properties.source.ConfigurationProperty;
import org.springframework.boot.diagnostics.AbstractFailureAnalyzer;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;

/**
 * The analyzer that reports unknown properties of {@code steadlock}. Replaces Spring Boot's own
 * analyzer, which shows the value: that would be a password if a program sets {@code
 * steadlock.pasword}.
 */
@Order(Ordered.HIGHEST_PRECEDENCE)
class UnknownPropertyFailureAnalyzer extends AbstractFailureAnalyzer<BindException> {
    @Override
    protected FailureAnalysis analyze(Throwable root, BindException cause) {
        if (!(cause.getCause() instanceof UnboundConfigurationPropertiesException unknown)
                || !cause.getName().toString().equals("steadlock")) {
            return null;
        }
        String names =
                unknown.getUnboundProperties().stream()
                        .map(UnknownPropertyFailureAnalyzer::shown)
                        .collect(Collectors.joining(", "));
        boolean areEmpty =
                unknown.getUnboundProperties().stream()
                        .allMatch(property -> "".equals(property.getValue()));
        return new FailureAnalysis(
                areEmpty
                        ? "There is no value, or no such property: " + names + "."
                        : "There is no such property: " + names + ".",
                areEmpty
                        ? "Give it a value, or leave it out."
                        : "Correct its name, or leave it out."
                                + unknown.getUnboundProperties().stream()
                                        .map(UnknownPropertyFailureAnalyzer::near)
                                        .collect(Collectors.joining()),
                unknown);
    }

    /** Returns the property and the place where it is set, without its value. */
    static String shown(ConfigurationProperty property) {
        return property.getName()
                + (property.getOrigin() == null ? "" : " (" + property.getOrigin() + ")");
    }

    private static String near(ConfigurationProperty property) {
        List<String> names = PropertyNames.near(property.getName());
        return names.isEmpty()
                ? ""
                : " In place of %s, did you mean %s?"
                        .formatted(property.getName(), String.join(" or ", names));
    }
}

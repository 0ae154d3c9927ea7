package com.example.shop;

import org.springframework.aot.AotDetector;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.ConfigurationClassPostProcessor;
import org.springframework.util.ClassUtils;

/** Finds out whether the program runs as the checks require. */
final class Generated {
    private Generated() {}

    /** Returns whether this start read no configuration class, and so used the generated code. */
    static boolean runs(ApplicationContext context) {
        return AotDetector.useGeneratedArtifacts()
                && context.getBeanNamesForType(ConfigurationClassPostProcessor.class).length == 0;
    }

    static boolean hasKotlinReflect() {
        return ClassUtils.isPresent("kotlin.reflect.full.KClasses", null);
    }
}

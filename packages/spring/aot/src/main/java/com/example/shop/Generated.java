package com.example.shop;

import org.springframework.aot.AotDetector;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.ConfigurationClassPostProcessor;
import org.springframework.util.ClassUtils;

/** Tells whether the program runs as the checks need it. */
final class Generated {
    private Generated() {}

    /** True if no configuration class was read at this start. */
    static boolean runs(ApplicationContext context) {
        return AotDetector.useGeneratedArtifacts()
                && context.getBeanNamesForType(ConfigurationClassPostProcessor.class).length == 0;
    }

    static boolean hasKotlinReflect() {
        return ClassUtils.isPresent("kotlin.reflect.full.KClasses", null);
    }
}

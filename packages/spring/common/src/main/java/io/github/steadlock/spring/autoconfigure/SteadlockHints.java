package io.github.steadlock.spring.autoconfigure;

import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;
import org.springframework.boot.context.properties.bind.BindableRuntimeHintsRegistrar;

/**
 * The hints for a native image about types that Spring does not find itself: one is bound without
 * being a bean, and one is looked up by name.
 */
final class SteadlockHints implements RuntimeHintsRegistrar {
    @Override
    public void registerHints(RuntimeHints hints, ClassLoader loader) {
        BindableRuntimeHintsRegistrar.forTypes(SpringRedis.class).registerHints(hints, loader);
        hints.reflection()
                .registerTypeIfPresent(
                        loader, SteadlockAutoConfiguration.METER_REGISTRY, hint -> {});
    }
}

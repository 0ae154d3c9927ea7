package io.github.steadlock.spring.autoconfigure;

import org.springframework.aot.hint.RuntimeHints;
import org.springframework.aot.hint.RuntimeHintsRegistrar;
import org.springframework.boot.context.properties.bind.BindableRuntimeHintsRegistrar;

/**
 * Tells a native image of types that Spring does not find itself: one is bound without being a
 * bean, one is asked for by its name.
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

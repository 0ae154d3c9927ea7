package io.github.steadlock.spring.autoconfigure;

import java.util.List;
import java.util.stream.StreamSupport;
import org.springframework.boot.context.properties.ConfigurationPropertiesBindHandlerAdvisor;
import org.springframework.boot.context.properties.bind.AbstractBindHandler;
import org.springframework.boot.context.properties.bind.BindContext;
import org.springframework.boot.context.properties.bind.BindHandler;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.bind.PropertySourcesPlaceholdersResolver;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.boot.context.properties.source.ConfigurationPropertySource;
import org.springframework.core.env.PropertySource;

/** Binds {@link SteadlockProperties} without {@link ServiceLinks}. */
final class PropertiesBinding implements ConfigurationPropertiesBindHandlerAdvisor {
    @Override
    public BindHandler apply(BindHandler handler) {
        return new Handler(handler);
    }

    private static final class Handler extends AbstractBindHandler {
        private final BindHandler parent;

        /** Whether another binder has to bind the properties, as Spring Boot's own sees links. */
        private boolean isApart;

        Handler(BindHandler parent) {
            super(parent);
            this.parent = parent;
        }

        /** Null has Spring Boot make an object without properties, in whose place comes another. */
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
        }

        private static boolean isOurs(Bindable<?> target) {
            return target.getType().resolve() == SteadlockProperties.class;
        }
    }

    /** The binder of Spring Boot on fewer sources. */
    private static Binder withoutLinks(Iterable<ConfigurationPropertySource> sources) {
        List<PropertySource<?>> all =
                StreamSupport.stream(sources.spliterator(), false)
                        .map(ConfigurationPropertySource::getUnderlyingSource)
                        .<PropertySource<?>>map(source -> (PropertySource<?>) source)
                        .toList();
        return new Binder(
                ServiceLinks.without(sources), new PropertySourcesPlaceholdersResolver(all));
    }
}

package io.github.steadlock.spring.autoconfigure;

import io.github.steadlock.SteadlockClient;
import java.util.List;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.config.BeanDefinition;
import org.springframework.boot.autoconfigure.AutoConfiguration;
import org.springframework.boot.autoconfigure.condition.ConditionalOnMissingBean;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.EnableConfigurationProperties;
import org.springframework.boot.ssl.DefaultSslBundleRegistry;
import org.springframework.boot.ssl.SslBundles;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Role;
import org.springframework.core.env.Environment;
import org.springframework.util.ClassUtils;

/**
 * The auto-configuration of the client by the properties {@code steadlock.*}; see {@link
 * SteadlockProperties}.
 */
@AutoConfiguration(
        afterName = {
            "org.springframework.boot.autoconfigure.data.redis.RedisAutoConfiguration",
            "org.springframework.boot.data.redis.autoconfigure.DataRedisAutoConfiguration",
            "org.springframework.boot.autoconfigure.ssl.SslAutoConfiguration",
            "org.springframework.boot.actuate.autoconfigure.metrics.CompositeMeterRegistryAutoConfiguration",
            "org.springframework.boot.micrometer.metrics.autoconfigure.CompositeMeterRegistryAutoConfiguration"
        })
@ConditionalOnProperty(name = "steadlock.enabled", havingValue = "true", matchIfMissing = true)
@EnableConfigurationProperties(SteadlockProperties.class)
public class SteadlockAutoConfiguration {
    static final String METER_REGISTRY = "io.micrometer.core.instrument.MeterRegistry";

    @Bean
    static ClosedLast steadlockClosedLast() {
        return new ClosedLast();
    }

    @Bean
    @Role(BeanDefinition.ROLE_INFRASTRUCTURE)
    static PropertiesBinding steadlockPropertiesBinding() {
        return new PropertiesBinding();
    }

    /** Makes the steps. These own the file of authorities, which exists as long as the client. */
    @Bean(destroyMethod = "")
    @ConditionalOnMissingBean(SteadlockClient.class)
    ClientSteps steadlockClientSteps(
            SteadlockProperties properties,
            Environment environment,
            ListableBeanFactory beans,
            ObjectProvider<SteadlockConnectionDetails> details,
            ObjectProvider<SslBundles> bundles,
            ObjectProvider<InMemoryServer> inMemory,
            ClosedLast closedLast) {
        var steps =
                new ClientSteps(
                        properties,
                        environment,
                        details.getIfUnique(),
                        bundles.getIfAvailable(DefaultSslBundleRegistry::new),
                        inMemory.getIfAvailable() != null,
                        hasRegistry(beans));
        closedLast.add(steps::close);
        return steps;
    }

    /**
     * Makes the client, which {@link ClosedLast} closes. Spring itself would call {@code close} too
     * early, so the destroy method is one without effect. With {@code destroyMethod = ""}, the code
     * that Spring generates ahead of time would call {@code close} all the same.
     */
    @Bean(destroyMethod = "isClosed")
    @ConditionalOnMissingBean
    SteadlockClient steadlockClient(
            ClientSteps steps,
            ObjectProvider<SteadlockBuilderCustomizer> customizers,
            ClosedLast closedLast) {
        List<SteadlockBuilderCustomizer> ordered = customizers.orderedStream().toList();
        return closedLast.add(new ClientFactory(steps, ordered).connect());
    }

    private static boolean hasRegistry(ListableBeanFactory beans) {
        ClassLoader loader = SteadlockAutoConfiguration.class.getClassLoader();
        return ClassUtils.isPresent(METER_REGISTRY, loader)
                && beans.getBeanNamesForType(
                                        ClassUtils.resolveClassName(METER_REGISTRY, loader),
                                        true,
                                        false)
                                .length
                        > 0;
    }
}

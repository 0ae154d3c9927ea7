package io.github.steadlock.spring.test;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.boot.test.autoconfigure.OverrideAutoConfiguration;
import org.springframework.boot.test.context.filter.annotation.TypeExcludeFilters;
import org.springframework.context.annotation.ComponentScan.Filter;
import org.springframework.core.annotation.AliasFor;
import org.springframework.test.context.BootstrapWith;
import org.springframework.test.context.junit.jupiter.SpringExtension;

/**
 * Marks a test of components that use locks. The test has only Steadlock's auto-configuration, and
 * a store in memory instead of a server. Components of the program are not scanned: add the tested
 * ones by {@code @Import} or {@link #includeFilters}.
 *
 * <pre>{@code
 * @SteadlockTest
 * @Import(Vouchers.class)
 * class VouchersTest {
 *     @Autowired Vouchers vouchers;
 *     @Autowired SteadlockClient locks;
 * }
 * }</pre>
 */
@Documented
@Inherited
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@BootstrapWith(SteadlockTestContextBootstrapper.class)
@ExtendWith(SpringExtension.class)
@OverrideAutoConfiguration(enabled = false)
@TypeExcludeFilters(SteadlockTypeExcludeFilter.class)
@AutoConfigureSteadlock
public @interface SteadlockTest {
    /**
     * Properties, such as {@code "steadlock.lease=5s"}. Properties that name a server have no
     * effect.
     */
    String[] properties() default {};

    /** Whether the default filters exclude the components of the program. */
    boolean useDefaultFilters() default true;

    /** Filters for components to include in the scan. */
    Filter[] includeFilters() default {};

    /** Filters for components to exclude from the scan. */
    Filter[] excludeFilters() default {};

    /** Auto-configurations to leave out. */
    @AliasFor(annotation = ImportAutoConfiguration.class, attribute = "exclude")
    Class<?>[] excludeAutoConfiguration() default {};
}

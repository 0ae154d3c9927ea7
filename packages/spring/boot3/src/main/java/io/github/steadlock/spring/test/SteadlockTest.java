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
import org.springframework.boot.test.autoconfigure.filter.TypeExcludeFilters;
import org.springframework.context.annotation.ComponentScan.Filter;
import org.springframework.core.annotation.AliasFor;
import org.springframework.test.context.BootstrapWith;
import org.springframework.test.context.junit.jupiter.SpringExtension;

/**
 * A test of what takes locks, with Steadlock's auto-configuration alone and a store in memory in
 * place of a server. Components of the program are not scanned: name those that are tested by
 * {@code @Import} or {@link #includeFilters}.
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
    /** Properties, as {@code "steadlock.lease=5s"}. Those that name a server do not count. */
    String[] properties() default {};

    /** Whether some components are left out even so. */
    boolean useDefaultFilters() default true;

    /** Components that are scanned after all. */
    Filter[] includeFilters() default {};

    /** Components that are not. */
    Filter[] excludeFilters() default {};

    /** Auto-configurations to leave out. */
    @AliasFor(annotation = ImportAutoConfiguration.class, attribute = "exclude")
    Class<?>[] excludeAutoConfiguration() default {};
}

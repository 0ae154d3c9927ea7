package io.github.steadlock.spring.test;

import org.springframework.boot.test.context.filter.annotation.StandardAnnotationCustomizableTypeExcludeFilter;

/** The filter that excludes the components of the program from a {@link SteadlockTest}. */
class SteadlockTypeExcludeFilter
        extends StandardAnnotationCustomizableTypeExcludeFilter<SteadlockTest> {
    SteadlockTypeExcludeFilter(Class<?> testClass) {
        super(testClass);
    }
}

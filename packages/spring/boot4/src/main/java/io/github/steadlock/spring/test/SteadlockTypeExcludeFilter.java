package io.github.steadlock.spring.test;

import org.springframework.boot.test.context.filter.annotation.StandardAnnotationCustomizableTypeExcludeFilter;

/** Leaves the components of the program out of a {@link SteadlockTest}. */
class SteadlockTypeExcludeFilter
        extends StandardAnnotationCustomizableTypeExcludeFilter<SteadlockTest> {
    SteadlockTypeExcludeFilter(Class<?> testClass) {
        super(testClass);
    }
}

package io.leasehold.spring.test;

import org.springframework.boot.test.context.filter.annotation.StandardAnnotationCustomizableTypeExcludeFilter;

/** Leaves the components of the program out of a {@link LeaseholdTest}. */
class LeaseholdTypeExcludeFilter
        extends StandardAnnotationCustomizableTypeExcludeFilter<LeaseholdTest> {
    LeaseholdTypeExcludeFilter(Class<?> testClass) {
        super(testClass);
    }
}

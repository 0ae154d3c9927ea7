package io.leasehold.spring.test;

import org.springframework.boot.test.context.SpringBootTestContextBootstrapper;
import org.springframework.test.context.TestContextAnnotationUtils;

/** Finds the properties of a {@link LeaseholdTest}. */
class LeaseholdTestContextBootstrapper extends SpringBootTestContextBootstrapper {
    @Override
    protected String[] getProperties(Class<?> testClass) {
        LeaseholdTest test =
                TestContextAnnotationUtils.findMergedAnnotation(testClass, LeaseholdTest.class);
        return test == null ? null : test.properties();
    }
}

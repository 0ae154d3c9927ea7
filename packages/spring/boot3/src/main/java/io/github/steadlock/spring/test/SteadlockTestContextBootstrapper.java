package io.github.steadlock.spring.test;

import org.springframework.boot.test.context.SpringBootTestContextBootstrapper;
import org.springframework.test.context.TestContextAnnotationUtils;

/** The bootstrapper that reads the properties of a {@link SteadlockTest}. */
class SteadlockTestContextBootstrapper extends SpringBootTestContextBootstrapper {
    @Override
    protected String[] getProperties(Class<?> testClass) {
        SteadlockTest test =
                TestContextAnnotationUtils.findMergedAnnotation(testClass, SteadlockTest.class);
        return test == null ? null : test.properties();
    }
}

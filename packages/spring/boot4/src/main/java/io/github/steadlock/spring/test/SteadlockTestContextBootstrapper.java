package io.github.steadlock.spring.test;

import org.springframework.boot.test.autoconfigure.TestSliceTestContextBootstrapper;

/** The bootstrapper that reads the properties of a {@link SteadlockTest}. */
class SteadlockTestContextBootstrapper extends TestSliceTestContextBootstrapper<SteadlockTest> {}

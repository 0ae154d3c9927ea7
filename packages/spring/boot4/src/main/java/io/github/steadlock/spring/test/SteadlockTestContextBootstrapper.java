package io.github.steadlock.spring.test;

import org.springframework.boot.test.autoconfigure.TestSliceTestContextBootstrapper;

/** Finds the properties of a {@link SteadlockTest}. */
class SteadlockTestContextBootstrapper extends TestSliceTestContextBootstrapper<SteadlockTest> {}

package io.leasehold.spring.test;

import org.springframework.boot.test.autoconfigure.TestSliceTestContextBootstrapper;

/** Finds the properties of a {@link LeaseholdTest}. */
class LeaseholdTestContextBootstrapper extends TestSliceTestContextBootstrapper<LeaseholdTest> {}

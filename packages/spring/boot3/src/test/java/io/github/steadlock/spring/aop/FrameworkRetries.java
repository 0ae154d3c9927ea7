package io.github.steadlock.spring.aop;

import java.util.List;

/** The rows of the table for the retries of Spring Framework: version 6 has no retries. */
final class FrameworkRetries {
    private FrameworkRetries() {}

    static List<OtherAnnotationsTableTest.Row> rows() {
        return List.of();
    }
}

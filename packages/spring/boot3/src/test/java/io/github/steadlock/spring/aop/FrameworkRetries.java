package io.github.steadlock.spring.aop;

import java.util.List;

/** The retries of Spring Framework: version 6 has none of its own. */
final class FrameworkRetries {
    private FrameworkRetries() {}

    static List<OtherAnnotationsTableTest.Row> rows() {
        return List.of();
    }
}

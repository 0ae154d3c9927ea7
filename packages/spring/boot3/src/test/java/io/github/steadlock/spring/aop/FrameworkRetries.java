package io.github.steadlock.spring.aop;

import java.util.List;

/** Spring Framework 6 has no retries of its own. */
final class FrameworkRetries {
    private FrameworkRetries() {}

    static List<OtherAnnotationsTableTest.Row> rows() {
        return List.of();
    }
}

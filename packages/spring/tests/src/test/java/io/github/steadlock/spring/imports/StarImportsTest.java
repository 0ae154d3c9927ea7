package io.github.steadlock.spring.imports;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.*;
import io.github.steadlock.spring.*;
import java.io.IOException;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.core.io.Resource;
import org.springframework.core.io.support.PathMatchingResourcePatternResolver;

/** Tests that a program can import all names of the library and of its Spring package at once. */
class StarImportsTest {
    @Test
    void no_name_is_in_both_packages() throws IOException {
        Set<String> ofTheLibrary = namesIn(Steadlock.class);
        assertThat(ofTheLibrary).contains("NamedLock", "Lease");
        assertThat(namesIn(CurrentLease.class))
                .contains("DistributedLock")
                .doesNotContainAnyElementsOf(ofTheLibrary);
    }

    @Test
    void the_annotation_and_the_locks_are_used_side_by_side() {
        try (SteadlockClient client = Steadlock.connect("memory://")) {
            NamedLock lock = client.lock("stock");
            assertThat(new Shop(lock).buy()).isTrue();
        }
    }

    private static Set<String> namesIn(Class<?> neighbour) throws IOException {
        String folder = neighbour.getPackageName().replace('.', '/');
        Resource[] found =
                new PathMatchingResourcePatternResolver()
                        .getResources("classpath*:" + folder + "/*.class");
        return Stream.of(found)
                .map(file -> file.getFilename().replace(".class", ""))
                .filter(name -> !name.equals("package-info"))
                .collect(Collectors.toSet());
    }

    private record Shop(NamedLock lock) {
        @DistributedLock(name = "'shop'", kind = LockKind.LOCK)
        boolean buy() {
            return lock.withLock((Lease lease) -> lease.isValid());
        }
    }
}

package io.github.steadlock.spring.test;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.autoconfigure.SteadlockServer;
import java.time.Duration;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.ApplicationContext;
import org.springframework.context.annotation.Import;
import org.springframework.stereotype.Component;

/** Tests the slice of {@link SteadlockTest} in a program whose server does not exist. */
@SteadlockTest(
        properties = {
            "steadlock.host=nowhere.invalid",
            "steadlock.ssl.enabled=true",
            "steadlock.lease=5s"
        })
@Import(SliceTest.Vouchers.class)
class SliceTest {
    @Autowired Vouchers vouchers;
    @Autowired ApplicationContext context;

    @Test
    void locks_are_in_memory_and_other_properties_apply() {
        assertThat(context.getBean(SteadlockServer.class).server()).isEqualTo("memory://");
        assertThat(vouchers.remaining()).isLessThan(Duration.ofSeconds(5));
    }

    @Test
    void unnamed_components_are_left_out() {
        assertThat(context.getBeanNamesForType(Unneeded.class)).isEmpty();
    }

    @SpringBootApplication
    static class Program {}

    @Component
    static class Vouchers {
        private final SteadlockClient locks;

        Vouchers(SteadlockClient locks) {
            this.locks = locks;
        }

        Duration remaining() {
            return locks.lock("a").withLock(lease -> lease.getRemaining());
        }
    }

    @Component
    static class Unneeded {}
}

package io.github.steadlock.spring.aop;

import io.github.steadlock.spring.autoconfigure.SteadlockAutoConfiguration;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** Programs for the tests: contexts with the annotation, whose clients share an embedded server. */
final class Programs {
    private Programs() {}

    /** Returns a program with a server of its own. */
    static ApplicationContextRunner program(Class<?>... configurations) {
        return on(server(), configurations);
    }

    /** Returns a program on {@code server}. */
    static ApplicationContextRunner on(String server, Class<?>... configurations) {
        return new ApplicationContextRunner()
                .withConfiguration(
                        AutoConfigurations.of(
                                SteadlockAutoConfiguration.class,
                                DistributedLockAutoConfiguration.class))
                .withUserConfiguration(configurations)
                .withPropertyValues("steadlock.url=" + server);
    }

    /** Returns the URL of a server that no other program uses. */
    static String server() {
        return "memory://" + UUID.randomUUID();
    }

    /** Waits for an event. Fails if it does not come within 20 s. */
    static void await(CountDownLatch event) {
        try {
            if (!event.await(20, TimeUnit.SECONDS)) {
                throw new AssertionError("the event did not come within 20 s");
            }
        } catch (InterruptedException interrupted) {
            throw new AssertionError(interrupted);
        }
    }
}

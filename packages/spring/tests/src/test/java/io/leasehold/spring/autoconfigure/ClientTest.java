package io.leasehold.spring.autoconfigure;

import static org.assertj.core.api.Assertions.assertThat;

import io.leasehold.LeaseholdClient;
import org.junit.jupiter.api.Test;
import org.springframework.boot.autoconfigure.AutoConfigurations;
import org.springframework.boot.test.context.runner.ApplicationContextRunner;

/** The client as a bean. */
class ClientTest {
    private final ApplicationContextRunner runner =
            new ApplicationContextRunner()
                    .withConfiguration(AutoConfigurations.of(LeaseholdAutoConfiguration.class));

    @Test
    void a_url_gives_a_client_that_is_closed_with_the_context() {
        var seen = new LeaseholdClient[1];
        runner.withPropertyValues("leasehold.url=memory://")
                .run(
                        context -> {
                            seen[0] = context.getBean(LeaseholdClient.class);
                            assertThat(seen[0].lock("stock:42").tryLock()).isTrue();
                        });
        assertThat(seen[0].isClosed()).isTrue();
    }
}

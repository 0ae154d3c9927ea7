package io.github.steadlock.spring.test;

import static org.assertj.core.api.Assertions.assertThat;

import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.autoconfigure.SteadlockServer;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.context.annotation.Configuration;

/** Tests a whole program with locks in memory. */
@SpringBootTest(
        properties = {
            "steadlock.url=redis://nowhere.invalid",
            "management.health.redis.enabled=false"
        },
        webEnvironment = SpringBootTest.WebEnvironment.NONE)
@AutoConfigureSteadlock
class WholeProgramTest {
    @Autowired SteadlockServer server;
    @Autowired SteadlockClient client;

    @Test
    void has_its_locks_in_memory() {
        assertThat(server.server()).isEqualTo("memory://");
        assertThat(client.lock("a").tryLock()).isTrue();
        client.lock("a").unlock();
    }

    @Configuration(proxyBeanMethods = false)
    @EnableAutoConfiguration
    static class Program {}
}

package io.leasehold.spring.test;

import static org.assertj.core.api.Assertions.assertThat;

import io.leasehold.LeaseholdClient;
import io.leasehold.spring.autoconfigure.LeaseholdServer;
import org.junit.jupiter.api.Test;
import org.springframework.beans.factory.annotation.Autowired;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.boot.test.context.SpringBootTest;
import org.springframework.context.annotation.Configuration;

/** A whole program with locks in memory. */
@SpringBootTest(
        properties = {
            "leasehold.url=redis://nowhere.invalid",
            "management.health.redis.enabled=false"
        },
        webEnvironment = SpringBootTest.WebEnvironment.NONE)
@AutoConfigureLeasehold
class WholeProgramTest {
    @Autowired LeaseholdServer server;
    @Autowired LeaseholdClient client;

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

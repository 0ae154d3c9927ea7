package com.example.shop;

import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockClient;
import io.github.steadlock.spring.autoconfigure.SteadlockBuilderCustomizer;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;

/**
 * A second client, customizers of the first client, and a task that still runs while the context
 * ends.
 */
@Configuration(proxyBeanMethods = false)
class Clients {
    @Bean
    @Order(2)
    SteadlockBuilderCustomizer second() {
        return builder -> builder.keyPrefix("shop:");
    }

    @Bean
    @Order(1)
    SteadlockBuilderCustomizer first() {
        return builder -> builder.keyPrefix("overwritten:");
    }

    @Bean(defaultCandidate = false)
    SteadlockClient auditLocks() {
        return Steadlock.connect("memory://");
    }

    @Bean
    LastTask lastTask() {
        return new LastTask();
    }
}

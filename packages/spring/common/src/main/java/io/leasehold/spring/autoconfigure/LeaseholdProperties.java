package io.leasehold.spring.autoconfigure;

import org.springframework.boot.context.properties.ConfigurationProperties;

/**
 * The properties of Leasehold.
 *
 * @param enabled whether there is a client at all
 * @param url the server
 */
@ConfigurationProperties("leasehold")
public record LeaseholdProperties(Boolean enabled, String url) {}

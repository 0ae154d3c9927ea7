package io.github.steadlock.spring.test;

import io.github.steadlock.spring.autoconfigure.InMemoryServer;
import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Inherited;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;
import org.springframework.boot.autoconfigure.ImportAutoConfiguration;
import org.springframework.context.annotation.Import;

/**
 * Replaces the server by a store in memory ({@code memory://}), even if properties name a server.
 * For a {@code @SpringBootTest}, which then needs no server for its locks. Each context has a store
 * of its own.
 */
@Documented
@Inherited
@Target(ElementType.TYPE)
@Retention(RetentionPolicy.RUNTIME)
@Import(InMemoryServer.class)
@ImportAutoConfiguration
public @interface AutoConfigureSteadlock {}

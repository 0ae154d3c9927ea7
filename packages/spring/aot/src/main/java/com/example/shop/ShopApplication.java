package com.example.shop;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.SpringBootVersion;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.context.ConfigurableApplicationContext;

/**
 * A program that Spring has processed ahead of time. Exits with 0 if all checks hold. The
 * processing calls {@code main} too, but only up to the first start.
 */
@SpringBootApplication
public class ShopApplication {
    public static void main(String[] args) {
        try (var context =
                start("--steadlock.url=memory://", "--steadlock.metrics.queues=tickets")) {
            Checks.that(
                    "the program runs on what was generated ahead of time",
                    Generated.runs(context));
            Checks.that("the program has no kotlin-reflect", !Generated.hasKotlinReflect());
            new Features(context).check();
        }
        Starts.check();
        System.out.printf(
                "Spring Boot %s, Java %s: %d checks hold ahead of time%n",
                SpringBootVersion.getVersion(), Runtime.version().feature(), Checks.count());
    }

    /** Starts the program with these properties as command-line arguments. */
    static ConfigurableApplicationContext start(String... properties) {
        return SpringApplication.run(ShopApplication.class, properties);
    }
}

package com.example.shop;

import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import org.springframework.context.ApplicationContext;

/** The Actuator endpoints of a program, called over HTTP. */
final class Actuator {
    private static final HttpClient http = HttpClient.newHttpClient();

    private Actuator() {}

    static String get(ApplicationContext context, String endpoint) {
        String port = context.getEnvironment().getProperty("local.server.port");
        URI address = URI.create("http://127.0.0.1:" + port + "/actuator/" + endpoint);
        try {
            return http.send(
                            HttpRequest.newBuilder(address).build(),
                            HttpResponse.BodyHandlers.ofString())
                    .body();
        } catch (IOException | InterruptedException failed) {
            throw new AssertionError("no answer of " + address, failed);
        }
    }
}

package io.github.steadlock.spring.autoconfigure;

/** The server of the client that the auto-configuration makes. */
@FunctionalInterface
public interface SteadlockServer {
    /** Returns the server without user and password; for several primaries, all of them. */
    String server();
}

package io.github.steadlock.spring.autoconfigure;

/** Which server the client of the auto-configuration has. */
@FunctionalInterface
public interface SteadlockServer {
    /** The server without user and password; of several primaries, all. */
    String server();
}

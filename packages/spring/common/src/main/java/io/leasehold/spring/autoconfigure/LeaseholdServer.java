package io.leasehold.spring.autoconfigure;

/** Which server the client of the auto-configuration has. */
@FunctionalInterface
public interface LeaseholdServer {
    /** The server without user and password; of several primaries, all. */
    String server();
}

package io.github.steadlock.spring;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.BindException;
import java.net.ServerSocket;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.springframework.util.FileSystemUtils;

/** A redis-server of its own, on a free port, in a temporary folder. */
public final class RedisServer implements AutoCloseable {
    /** The number of attempts to start a server, each on another port. */
    private static final int MAX_ATTEMPTS = 5;

    private final Path folder;
    private final List<String> options;
    private int port;
    private Process process;

    /** Starts the server with these options, such as {@code "--requirepass", "secret"}. */
    public RedisServer(String... options) {
        this.options = List.of(options);
        try {
            folder = Files.createTempDirectory("steadlock-test");
            for (int attempt = 1; ; attempt++) {
                port = freePort();
                // Another program can have taken the port after it was found free.
                if (isStarted()) {
                    return;
                }
                if (attempt == MAX_ATTEMPTS) {
                    throw new IllegalStateException(Files.readString(log()));
                }
            }
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    /**
     * Returns a port on which no program listens. The port is outside the range that systems use
     * for outgoing connections, because such a connection could occupy it before the server starts.
     */
    public static int freePort() throws IOException {
        while (true) {
            try (var free = new ServerSocket(ThreadLocalRandom.current().nextInt(10_000, 32_000))) {
                return free.getLocalPort();
            } catch (BindException taken) {
                continue;
            }
        }
    }

    public int port() {
        return port;
    }

    public String url() {
        return "redis://127.0.0.1:" + port;
    }

    /** Starts the server again, on the same port and without data. */
    public void start() {
        try {
            if (!isStarted()) {
                throw new IllegalStateException(Files.readString(log()));
            }
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }

    /** Returns the server's reply to an inline command, on a new connection. */
    public String ask(String question) {
        try (var socket = new Socket("127.0.0.1", port)) {
            socket.setSoTimeout(2_000);
            byte[] text = (question + "\r\n").getBytes(StandardCharsets.UTF_8);
            socket.getOutputStream().write(text);
            byte[] answer = new byte[65_536];
            int length = socket.getInputStream().read(answer);
            return length < 0 ? "" : new String(answer, 0, length, StandardCharsets.UTF_8);
        } catch (IOException failed) {
            return "";
        }
    }

    public void stop() {
        process.destroyForcibly();
        try {
            process.waitFor();
        } catch (InterruptedException interrupt) {
            Thread.currentThread().interrupt();
        }
    }

    @Override
    public void close() {
        stop();
        FileSystemUtils.deleteRecursively(folder.toFile());
    }

    private Path log() {
        return folder.resolve("log");
    }

    /** Starts the server and waits until it accepts connections. Returns false if it has ended. */
    private boolean isStarted() throws IOException {
        var command =
                new ArrayList<>(List.of("redis-server", "--port", "" + port, "--save", ""));
        command.addAll(options);
        process =
                new ProcessBuilder(command)
                        .directory(folder.toFile())
                        .redirectErrorStream(true)
                        .redirectOutput(log().toFile())
                        .start();
        Waiting.until("redis-server starts", () -> isReady() || !process.isAlive());
        return isReady();
    }

    /** Reads the log. A connection could reach another program, if it took the port. */
    private boolean isReady() {
        try {
            return Files.readString(log()).contains("Ready to accept connections");
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
    }
}

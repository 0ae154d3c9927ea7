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
    private final Path folder;
    private final int port;
    private final List<String> command;
    private Process process;

    /** Starts the server with these options, such as {@code "--requirepass", "secret"}. */
    public RedisServer(String... options) {
        try {
            folder = Files.createTempDirectory("steadlock-test");
            port = freePort();
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
        command = new ArrayList<>(List.of("redis-server", "--port", "" + port, "--save", ""));
        command.addAll(List.of(options));
        start();
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
            process =
                    new ProcessBuilder(command)
                            .directory(folder.toFile())
                            .redirectErrorStream(true)
                            .redirectOutput(folder.resolve("log").toFile())
                            .start();
        } catch (IOException failed) {
            throw new UncheckedIOException(failed);
        }
        Waiting.until("redis-server answers", this::answers);
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

    private boolean answers() {
        String answer = ask("PING");
        return process.isAlive() && (answer.startsWith("+PONG") || answer.startsWith("-NOAUTH"));
    }
}

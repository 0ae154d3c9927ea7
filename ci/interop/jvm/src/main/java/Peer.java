import io.github.steadlock.Steadlock;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ConcurrentModificationException;
import java.util.HashMap;
import java.util.Map;
import java.util.stream.Stream;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.Config;

/** Runs the libraries of the JVM: `Peer LIBRARY URL`, with the line protocol of ../README.md. */
public final class Peer {
    private static final String CLUSTER = "redis+cluster://";
    private static final Duration WAIT = Duration.ofMinutes(1);

    /** A lock of one library. */
    interface Handle {
        /** Acquires the lock within `wait`; a null `lease` means the library's default. Returns null, or a refusal. */
        String acquire(Duration wait, Duration lease) throws Exception;

        void unlock();
    }

    /** A factory for the handles of names. */
    interface Library {
        Handle lock(String name);
    }

    private final Library library;
    private final Map<String, Handle> locks = new HashMap<>();

    private Peer(Library library) {
        this.library = library;
    }

    public static void main(String[] args) throws Exception {
        var peer = new Peer(library(args[0], args[1]));
        System.out.println("ready");
        var input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            System.out.println(peer.answer(line.split(" ")).replace('\n', ' '));
        }
        System.exit(0);
    }

    private String answer(String[] command) {
        try {
            var lock = locks.computeIfAbsent(command[1], library::lock);
            if (command[0].equals("unlock")) {
                return unlock(lock);
            }
            long leaseMs = Long.parseLong(command[2]);
            var refusal = lock.acquire(
                    command[0].equals("lock") ? WAIT : Duration.ZERO,
                    leaseMs == 0 ? null : Duration.ofMillis(leaseMs));
            return refusal == null ? "held" : "refused " + refusal;
        } catch (Exception error) {
            return "error " + error;
        }
    }

    /** Releases a lock. Each library throws its own exception if the record does not belong to the caller any more. */
    private static String unlock(Handle lock) {
        try {
            lock.unlock();
            return "released";
        } catch (IllegalMonitorStateException | ConcurrentModificationException error) {
            return "gone " + error.getMessage();
        }
    }

    private static Library library(String name, String url) {
        return switch (name) {
            case "steadlock-mutex" -> SteadlockHandle.mutexes(Steadlock.connect(url));
            case "steadlock-lock" -> SteadlockHandle.locks(Steadlock.connect(url));
            case "redisson" -> {
                var client = redisson(url);
                yield lock -> new RedissonHandle(client.getLock(lock));
            }
            case "redisson-spin" -> {
                var client = redisson(url);
                yield lock -> new RedissonHandle(client.getSpinLock(lock));
            }
            case "spring" -> SpringHandle.library(url, false);
            case "spring-pubsub" -> SpringHandle.library(url, true);
            default -> HandWritten.library(name, url);
        };
    }

    private static RedissonClient redisson(String url) {
        var config = new Config();
        if (url.startsWith(CLUSTER)) {
            var cluster = config.useClusterServers().setMasterConnectionMinimumIdleSize(1).setSlaveConnectionMinimumIdleSize(1);
            Stream.of(url.substring(CLUSTER.length()).split(",")).forEach(node -> cluster.addNodeAddress("redis://" + node));
        } else {
            config.useSingleServer().setAddress(url).setConnectionMinimumIdleSize(1);
        }
        return Redisson.create(config);
    }
}

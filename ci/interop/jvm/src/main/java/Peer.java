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

/** The libraries of the JVM: `Peer LIBRARY URL`, with the line protocol of ../README.md. */
public final class Peer {
    private static final String CLUSTER = "redis+cluster://";
    private static final Duration PATIENCE = Duration.ofMinutes(1);

    /** One lock of one library, as its own type does it. */
    interface Handle {
        /** Takes it within `wait`; `lease` is null for the library's own default. Says why not, or null. */
        String take(Duration wait, Duration lease) throws Exception;

        void unlock();
    }

    /** Makes the handle of a name. */
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

    private String answer(String[] words) {
        try {
            var lock = locks.computeIfAbsent(words[1], library::lock);
            if (words[0].equals("unlock")) {
                return unlock(lock);
            }
            long leaseMs = Long.parseLong(words[2]);
            var refused = lock.take(
                    words[0].equals("lock") ? PATIENCE : Duration.ZERO,
                    leaseMs == 0 ? null : Duration.ofMillis(leaseMs));
            return refused == null ? "held" : "refused " + refused;
        } catch (Exception error) {
            return "error " + error;
        }
    }

    /** Those that say that the record is not the caller's any more throw, each its own. */
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

import java.util.Scanner;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.config.Config;

/** Runs single steps of a Redisson lock: {@code Steps lock|fair|read|write URL NAME}. See ../scripts/libraries.py. */
public final class Steps {
    /** Redisson renews its locks every third of this time. */
    private static final long WATCHDOG_MS = 3001;

    public static void main(String[] args) throws Exception {
        var config = new Config();
        config.setLockWatchdogTimeout(WATCHDOG_MS);
        config.useSingleServer().setAddress(args[1]);
        var client = Redisson.create(config);
        Lock lock = switch (args[0]) {
            case "lock" -> client.getLock(args[2]);
            case "fair" -> client.getFairLock(args[2]);
            case "read" -> client.getReadWriteLock(args[2]).readLock();
            case "write" -> client.getReadWriteLock(args[2]).writeLock();
            default -> throw new IllegalArgumentException(args[0]);
        };
        System.out.println("ready");
        var input = new Scanner(System.in);
        while (input.hasNextLine()) {
            step(lock, input.nextLine());
            System.out.println("done");
        }
        System.exit(0);
    }

    private static void step(Lock lock, String name) throws InterruptedException {
        switch (name) {
            case "acquire" -> lock.tryLock();
            case "renew" -> Thread.sleep(WATCHDOG_MS / 3 + 200);
            case "refused" -> {
                // Redisson's locks belong to threads, so another thread is refused.
                var other = new Thread(lock::tryLock);
                other.start();
                other.join();
            }
            case "release" -> lock.unlock();
            default -> throw new IllegalArgumentException(name);
        }
    }
}

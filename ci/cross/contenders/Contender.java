import io.github.steadlock.NamedLock;
import io.github.steadlock.Lease;
import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockBuilder;
import io.github.steadlock.SteadlockClient;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicLongArray;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import redis.clients.jedis.RedisClient;
import redis.clients.jedis.StreamEntryID;

/** The contender on the JVM, compiled against the jars of the seckill service. */
public final class Contender {
    private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));

    private final Map<String, String> options = new HashMap<>();
    private final String url;
    private final String name;
    private final int workers;
    private final long rounds;
    private final long seconds;

    public static void main(String[] args) throws Exception {
        var contender = new Contender(args);
        switch (args[0]) {
            case "count" -> contender.count();
            case "turns" -> contender.turns();
            case "hold" -> contender.hold();
            case "downgrade" -> contender.downgrade();
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private Contender(String[] args) {
        url = args[1];
        name = args[2];
        for (int i = 3; i < args.length; i += 2) {
            options.put(args[i], args[i + 1]);
        }
        workers = (int) option("--workers", 1);
        rounds = option("--rounds", 1_000_000_000);
        seconds = option("--seconds", 1_000_000);
    }

    private void count() throws Exception {
        try (SteadlockClient client = connect();
                RedisClient store = RedisClient.create(url)) {
            NamedLock lock = lockOf(client);
            run(worker -> {
                for (long round = 0; round < rounds; round++) {
                    lock.lock();
                    try {
                        String value = store.get(name + ":count");
                        Thread.sleep(1);
                        store.set(name + ":count", Long.toString(value == null ? 1 : Long.parseLong(value) + 1));
                        store.rpush(name + ":tokens", Long.toString(lock.getLease().getToken()));
                    } finally {
                        lock.unlock();
                    }
                }
            });
        }
    }

    private void turns() throws Exception {
        var grants = new AtomicLongArray(workers);
        var heldNanos = new AtomicLong();
        try (SteadlockClient client = connect();
                RedisClient store = RedisClient.create(url)) {
            NamedLock lock = lockOf(client);
            long holdMs = option("--hold-ms", 0);
            NamedLock own =
                    client.fairLock(name + ":" + ProcessHandle.current().pid());
            for (long round = 0; round < option("--warm-up", 0); round++) {
                own.lock();
                own.unlock();
            }
            run(worker -> {
                long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
                while (grants.get(worker) < rounds && System.nanoTime() < until) {
                    lock.lock();
                    try {
                        long granted = System.nanoTime();
                        String id = ProcessHandle.current().pid() + "/" + worker + "/" + grants.get(worker);
                        logStep(store, "enter", id, lock.getLease());
                        Thread.sleep(holdMs);
                        logStep(store, "exit", id, null);
                        heldNanos.addAndGet(System.nanoTime() - granted);
                        grants.incrementAndGet(worker);
                    } finally {
                        lock.unlock();
                    }
                }
            });
        }
        Stream<Long> numbers = Stream.concat(
                Stream.of(TimeUnit.NANOSECONDS.toMillis(heldNanos.get())),
                LongStream.range(0, workers).mapToObj(worker -> grants.get((int) worker)));
        System.out.println(numbers.map(String::valueOf).collect(Collectors.joining(" ")));
    }

    private void hold() throws Exception {
        var allHold = new CountDownLatch(workers);
        var over = new CountDownLatch(1);
        try (SteadlockClient client = connect()) {
            NamedLock lock = lockOf(client);
            var threads = new ArrayList<Thread>();
            for (int worker = 0; worker < workers; worker++) {
                var thread = new Thread(() -> {
                    lock.lock();
                    allHold.countDown();
                    try {
                        over.await();
                    } catch (InterruptedException e) {
                        throw new IllegalStateException(e);
                    }
                    lock.unlock();
                });
                thread.start();
                threads.add(thread);
            }
            allHold.await();
            System.out.println("held");
            waitForLine();
            over.countDown();
            for (Thread thread : threads) {
                thread.join();
            }
            System.out.println("released");
        }
    }

    private void downgrade() throws Exception {
        try (SteadlockClient client = connect()) {
            var lock = client.readWriteLock(name);
            lock.writeLock().lock();
            System.out.println("held");
            waitForLine();
            lock.readLock().lock();
            lock.writeLock().unlock();
            System.out.println("reading");
            waitForLine();
            lock.readLock().unlock();
            System.out.println("released");
        }
    }

    private SteadlockClient connect() {
        SteadlockBuilder builder = Steadlock.builder().url(url);
        if (options.containsKey("--lease-ms")) {
            builder.lease(Duration.ofMillis(option("--lease-ms", 0)));
        }
        return builder.connect();
    }

    private NamedLock lockOf(SteadlockClient client) {
        String kind = options.getOrDefault("--kind", "lock");
        return switch (kind) {
            case "lock" -> client.lock(name);
            case "mutex" -> client.mutex(name);
            case "fair" -> client.fairLock(name);
            case "read" -> client.readWriteLock(name).readLock();
            case "write" -> client.readWriteLock(name).writeLock();
            case "semaphore" -> client.semaphore(name, (int) option("--limit", 1))
                    .permits((int) option("--permits", 1));
            case "multi" -> client.multiLock(
                    Stream.of(name.split(",")).map(client::lock).toList());
            default -> throw new IllegalArgumentException(kind);
        };
    }

    /** Writes into `NAME:log` that a worker enters, with the end of its lease, or leaves. */
    private void logStep(RedisClient store, String step, String id, Lease lease) {
        if (option("--log", 0) == 0) {
            return;
        }
        // The server runs on this machine, so both use the same clock.
        long until = System.currentTimeMillis() + (lease == null ? 0 : lease.getRemaining().toMillis());
        store.xadd(
                name + ":log",
                StreamEntryID.NEW_ENTRY,
                Map.of("step", step, "id", id, "until", Long.toString(until)));
    }

    private long option(String key, long preset) {
        return Long.parseLong(options.getOrDefault(key, Long.toString(preset)));
    }

    private interface Work {
        void run(int worker) throws Exception;
    }

    /** Prints `ready`, waits for a line, and runs `work` on each of the worker threads. */
    private void run(Work work) throws Exception {
        System.out.println("ready");
        waitForLine();
        var pool = Executors.newFixedThreadPool(workers);
        var tasks = new ArrayList<Future<?>>();
        for (int i = 0; i < workers; i++) {
            int worker = i;
            tasks.add(pool.submit(() -> {
                work.run(worker);
                return null;
            }));
        }
        for (Future<?> task : tasks) {
            task.get();
        }
        pool.shutdown();
    }

    private static void waitForLine() throws IOException {
        INPUT.readLine();
    }
}

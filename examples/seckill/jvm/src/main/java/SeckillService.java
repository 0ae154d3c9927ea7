import com.sun.net.httpserver.HttpServer;
import io.github.steadlock.NamedLock;
import io.github.steadlock.Lease;
import io.github.steadlock.LockOptions;
import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockClient;
import java.io.IOException;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import redis.clients.jedis.RedisClient;

/** The JVM service: sells vouchers, one per user, from a stock that services in other languages sell too. */
public final class SeckillService {
    private static final String URL = System.getenv("REDIS_URL");
    private static final String PREFIX = System.getenv("SECKILL_PREFIX");
    private static final int USERS = Integer.parseInt(System.getenv("SECKILL_USERS"));
    private static final int CLICKS_AT_A_TIME = 8;

    private final NamedLock lock;
    private final RedisClient store;
    private final AtomicInteger sold = new AtomicInteger();
    private final AtomicInteger refused = new AtomicInteger();
    private final AtomicInteger grants = new AtomicInteger();
    private final AtomicLong longestWaitMs = new AtomicLong();
    private volatile boolean soldOut;

    private SeckillService(SteadlockClient client, RedisClient store) {
        this.lock = client.lock(PREFIX + ":voucher");
        this.store = store;
    }

    /** Serves one click after another until no voucher or no click is left. */
    private void serve(Queue<String> clicks) {
        for (String user = clicks.poll(); user != null && !soldOut; user = clicks.poll()) {
            long start = System.nanoTime();
            lock.lock();
            try {
                long waitedMs = TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start);
                longestWaitMs.accumulateAndGet(waitedMs, Math::max);
                grants.incrementAndGet();
                sell(user, lock.getLease());
            } finally {
                lock.unlock();
            }
        }
    }

    /**
     * Sells a voucher to one user. Each read and each write is a separate command: only the lock makes the sale
     * atomic.
     */
    private void sell(String user, Lease lease) {
        int stock = Integer.parseInt(store.get(PREFIX + ":stock"));
        if (stock == 0) {
            soldOut = true;
            return;
        }
        if (store.hexists(PREFIX + ":orders", user)) {
            refused.incrementAndGet();
            return;
        }
        // The fencing check: a holder that was paused for longer than its lease has a token that is too low.
        long token = lease.getToken();
        if (token <= Long.parseLong(store.get(PREFIX + ":token"))) {
            throw new IllegalStateException("fencing token " + token + " is too low");
        }
        pause(1);
        String sale = "jvm-" + sold.get();
        String record = "{\"user\": \"%s\", \"language\": \"jvm\", \"token\": %d, \"left\": %d}".formatted(user, token, stock - 1);
        store.hset(PREFIX + ":sales", sale, record);
        store.hset(PREFIX + ":orders", user, sale);
        store.set(PREFIX + ":token", Long.toString(token));
        store.set(PREFIX + ":stock", Integer.toString(stock - 1));
        sold.incrementAndGet();
    }

    private void report() {
        System.out.printf(
            "{\"sold\": %d, \"refused\": %d, \"grants\": %d, \"longestWaitMs\": %d}%n",
            sold.get(), refused.get(), grants.get(), longestWaitMs.get());
    }

    private static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new IllegalStateException("interrupted in the middle of a sale", e);
        }
    }

    /** Serves all clicks, eight at a time. */
    private void serveAll() throws Exception {
        var clicks = new ArrayList<String>();
        for (int number = 0; number < USERS; number++) {
            clicks.addAll(List.of("user-" + number, "user-" + number));
        }
        Collections.shuffle(clicks);
        var shared = new ConcurrentLinkedQueue<>(clicks);

        var reporter = Executors.newSingleThreadScheduledExecutor();
        reporter.scheduleAtFixedRate(this::report, 0, 200, TimeUnit.MILLISECONDS);
        var workers = Executors.newFixedThreadPool(CLICKS_AT_A_TIME);
        var tasks = new ArrayList<Future<?>>();
        for (int n = 0; n < CLICKS_AT_A_TIME; n++) {
            tasks.add(workers.submit(() -> serve(shared)));
        }
        for (Future<?> task : tasks) {
            task.get();
        }
        workers.shutdown();
        reporter.shutdown();
        reporter.awaitTermination(1, TimeUnit.SECONDS);
        report();
    }

    /** Serves the metrics of the client to Prometheus. */
    private static HttpServer serveMetrics(SteadlockClient client) throws IOException {
        var server = HttpServer.create(new InetSocketAddress("127.0.0.1", 0), 0);
        server.createContext("/metrics", exchange -> {
            byte[] page = client.metrics().getBytes(StandardCharsets.UTF_8);
            exchange.getResponseHeaders().set("Content-Type", "text/plain; version=0.0.4");
            exchange.sendResponseHeaders(200, page.length);
            exchange.getResponseBody().write(page);
            exchange.close();
        });
        server.start();
        return server;
    }

    public static void main(String[] args) throws Exception {
        try (SteadlockClient client = Steadlock.builder().url(URL).metrics().connect();
                RedisClient store = RedisClient.create(URL)) {
            // The mutex keeps a second JVM service from selling. Its lease is renewed each second.
            var renewed = LockOptions.DEFAULT.withLease(Duration.ofSeconds(3)).renewed();
            NamedLock shift = client.mutex(PREFIX + ":shift:jvm", renewed);
            shift.lock();
            HttpServer metrics = serveMetrics(client);
            System.out.printf("{\"ready\": \"http://127.0.0.1:%d/metrics\"}%n", metrics.getAddress().getPort());
            System.in.read();
            new SeckillService(client, store).serveAll();
            System.out.println("{\"done\": true}");
            System.in.readAllBytes();
            metrics.stop(0);
            shift.unlock();
        }
    }
}

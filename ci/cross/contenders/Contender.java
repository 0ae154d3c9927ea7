import io.leasehold.DistributedLock;
import io.leasehold.Leasehold;
import io.leasehold.LeaseholdClient;
import java.time.Duration;
import java.util.ArrayList;
import java.util.concurrent.Callable;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import redis.clients.jedis.RedisClient;

/** The contender on the JVM. Run as a single source file with the jars of the seckill service. */
public final class Contender {
    public static void main(String[] args) throws Exception {
        String url = args[1];
        String name = args[2];
        switch (args[0]) {
            case "count" -> count(url, name, Integer.parseInt(args[3]), Integer.parseInt(args[4]));
            case "turns" -> turns(url, name, Integer.parseInt(args[3]), Long.parseLong(args[4]));
            case "hold" -> hold(url, name, Long.parseLong(args[3]));
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void count(String url, String name, int workers, int rounds) throws Exception {
        try (LeaseholdClient client = Leasehold.connect(url);
                RedisClient store = RedisClient.create(url)) {
            DistributedLock lock = client.lock(name);
            run(workers, () -> {
                for (int round = 0; round < rounds; round++) {
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
                return null;
            });
        }
    }

    private static void turns(String url, String name, int workers, long seconds) throws Exception {
        var grants = new AtomicLong();
        try (LeaseholdClient client = Leasehold.connect(url)) {
            DistributedLock lock = client.lock(name);
            run(workers, () -> {
                long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
                while (System.nanoTime() < until) {
                    lock.lock();
                    try {
                        grants.incrementAndGet();
                    } finally {
                        lock.unlock();
                    }
                }
                return null;
            });
        }
        System.out.println(grants);
    }

    private static void hold(String url, String name, long leaseMs) throws Exception {
        LeaseholdClient client = Leasehold.builder().url(url).lease(Duration.ofMillis(leaseMs)).connect();
        client.lock(name).lock();
        System.out.println("held");
        Thread.currentThread().join();
    }

    /** Says `ready`, waits for the word, and runs `work` on that many threads. */
    private static void run(int workers, Callable<Void> work) throws Exception {
        System.out.println("ready");
        System.in.read();
        var pool = Executors.newFixedThreadPool(workers);
        var tasks = new ArrayList<Future<Void>>();
        for (int worker = 0; worker < workers; worker++) {
            tasks.add(pool.submit(work));
        }
        for (Future<Void> task : tasks) {
            task.get();
        }
        pool.shutdown();
    }
}

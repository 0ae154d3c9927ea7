import io.github.steadlock.Steadlock;
import io.github.steadlock.SteadlockBuilder;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Scanner;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.LongAdder;
import java.util.concurrent.locks.Lock;
import org.redisson.Redisson;
import org.redisson.config.Config;

/** The contender for JVM threads: {@code Threads "steadlock"|"steadlock, metrics"|"redisson" URL THREADS}. */
public final class Threads {
    public static void main(String[] args) throws Exception {
        int number = Integer.parseInt(args[2]);
        List<Lock> locks = switch (args[0]) {
            case "steadlock" -> ours(Steadlock.builder().url(args[1]), number);
            case "steadlock, metrics" -> ours(Steadlock.builder().url(args[1]).metrics(), number);
            case "redisson" -> theirs(args[1], number);
            default -> throw new IllegalArgumentException(args[0]);
        };
        System.out.println("ready");
        var input = new Scanner(System.in).useLocale(Locale.ROOT);
        while (input.hasNextDouble()) {
            measure(locks, input.nextDouble());
        }
        System.exit(0);
    }

    private static List<Lock> ours(SteadlockBuilder builder, int threads) {
        var client = builder.connect();
        var locks = new ArrayList<Lock>();
        for (int thread = 0; thread < threads; thread++) {
            locks.add(client.lock("ours-jvm:" + thread));
        }
        return locks;
    }

    private static List<Lock> theirs(String url, int threads) {
        var config = new Config();
        config.useSingleServer().setAddress(url);
        var client = Redisson.create(config);
        var locks = new ArrayList<Lock>();
        for (int thread = 0; thread < threads; thread++) {
            locks.add(client.getLock("theirs-jvm-" + thread));
        }
        return locks;
    }

    private static void measure(List<Lock> locks, double seconds) throws InterruptedException {
        var done = new LongAdder();
        var gate = new CountDownLatch(1);
        var threads = new ArrayList<Thread>();
        for (Lock lock : locks) {
            var thread = new Thread(() -> {
                await(gate);
                long until = System.nanoTime() + (long) (seconds * 1e9);
                while (System.nanoTime() < until) {
                    lock.lock();
                    lock.unlock();
                    done.increment();
                }
            });
            thread.start();
            threads.add(thread);
        }
        long started = System.nanoTime();
        gate.countDown();
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(done.sum() + " " + (System.nanoTime() - started) / 1e9);
    }

    private static void await(CountDownLatch gate) {
        try {
            gate.await();
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}

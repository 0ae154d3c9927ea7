import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** A lock by `getLock` or `getSpinLock` of Redisson. With a lease of -1, its watchdog renews the lock. */
record RedissonHandle(RLock lock) implements Peer.Handle {
    @Override
    public String acquire(Duration wait, Duration lease) throws Exception {
        long leaseMs = lease == null ? -1 : lease.toMillis();
        return lock.tryLock(wait.toMillis(), leaseMs, TimeUnit.MILLISECONDS) ? null : "";
    }

    @Override
    public void unlock() {
        lock.unlock();
    }
}

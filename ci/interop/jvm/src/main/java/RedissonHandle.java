import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.redisson.api.RLock;

/** `getLock` and `getSpinLock` of Redisson. A lease of -1 is its watchdog's. */
record RedissonHandle(RLock lock) implements Peer.Handle {
    @Override
    public String take(Duration wait, Duration lease) throws Exception {
        long leaseMs = lease == null ? -1 : lease.toMillis();
        return lock.tryLock(wait.toMillis(), leaseMs, TimeUnit.MILLISECONDS) ? null : "";
    }

    @Override
    public void unlock() {
        lock.unlock();
    }
}

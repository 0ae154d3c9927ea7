import io.leasehold.DistributedLock;
import io.leasehold.LeaseholdClient;
import io.leasehold.LockOptions;
import io.leasehold.LockTimeoutException;
import java.time.Duration;
import java.util.function.Function;

/** A lock or a mutex of ours, held by the thread. */
record LeaseholdHandle(Function<LockOptions, DistributedLock> lock) implements Peer.Handle {
    static Peer.Library locks(LeaseholdClient client) {
        return name -> new LeaseholdHandle(options -> client.lock(name, options));
    }

    static Peer.Library mutexes(LeaseholdClient client) {
        return name -> new LeaseholdHandle(options -> client.mutex(name, options));
    }

    @Override
    public String take(Duration wait, Duration lease) {
        var options = LockOptions.DEFAULT.withWait(wait);
        try {
            lock.apply(lease == null ? options : options.withLease(lease)).lock();
            return null;
        } catch (LockTimeoutException error) {
            return error.getMessage();
        }
    }

    @Override
    public void unlock() {
        lock.apply(LockOptions.DEFAULT).unlock();
    }
}

import io.github.steadlock.NamedLock;
import io.github.steadlock.LockOptions;
import io.github.steadlock.LockTimeoutException;
import io.github.steadlock.SteadlockClient;
import java.time.Duration;
import java.util.function.Function;

/** A lock or a mutex of Steadlock, held by the thread. */
record SteadlockHandle(Function<LockOptions, NamedLock> lock) implements Peer.Handle {
    static Peer.Library locks(SteadlockClient client) {
        return name -> new SteadlockHandle(options -> client.lock(name, options));
    }

    static Peer.Library mutexes(SteadlockClient client) {
        return name -> new SteadlockHandle(options -> client.mutex(name, options));
    }

    @Override
    public String acquire(Duration wait, Duration lease) {
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

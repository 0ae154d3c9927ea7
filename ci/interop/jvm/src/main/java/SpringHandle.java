import java.net.URI;
import java.time.Duration;
import org.springframework.data.redis.connection.lettuce.LettuceConnectionFactory;
import org.springframework.integration.redis.util.RedisLockRegistry;
import org.springframework.integration.redis.util.RedisLockRegistry.RedisLockType;
import org.springframework.integration.support.locks.DistributedLock;

/** A lock by `RedisLockRegistry` of Spring Integration, with the registry key `orders`. */
record SpringHandle(DistributedLock lock) implements Peer.Handle {
    private static final Duration OWN_LEASE = Duration.ofMinutes(1);

    static Peer.Library library(String url, boolean waitsForMessages) {
        var registry = new RedisLockRegistry(connect(url), "orders", OWN_LEASE);
        registry.setIdleBetweenTries(Duration.ofMillis(20));
        registry.setRedisLockType(waitsForMessages ? RedisLockType.PUB_SUB_LOCK : RedisLockType.SPIN_LOCK);
        return name -> new SpringHandle(registry.obtain(name));
    }

    static LettuceConnectionFactory connect(String url) {
        var server = URI.create(url);
        var connections = new LettuceConnectionFactory(server.getHost(), server.getPort());
        connections.afterPropertiesSet();
        connections.start();
        return connections;
    }

    @Override
    public String acquire(Duration wait, Duration lease) throws Exception {
        return lock.tryLock(wait, lease == null ? OWN_LEASE : lease) ? null : "";
    }

    @Override
    public void unlock() {
        lock.unlock();
    }
}

import java.time.Duration;
import java.util.UUID;
import org.springframework.data.redis.core.StringRedisTemplate;

class SimpleRedisLock {
    private static final String KEY_PREFIX = "lock:";
    private static final String ID_PREFIX = UUID.randomUUID() + "-";

    private final StringRedisTemplate redis;
    private final String name;

    SimpleRedisLock(StringRedisTemplate redis, String name) {
        this.redis = redis;
        this.name = name;
    }

    boolean tryLock(Duration ttl) {
        var id = ID_PREFIX + Thread.currentThread().getId();
        return Boolean.TRUE.equals(redis.opsForValue().setIfAbsent(KEY_PREFIX + name, id, ttl));
    }

    void unlock() {
        var id = ID_PREFIX + Thread.currentThread().getId();
        if (id.equals(redis.opsForValue().get(KEY_PREFIX + name))) {
            redis.delete(KEY_PREFIX + name);
        }
    }
}

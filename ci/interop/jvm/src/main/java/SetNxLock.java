import java.time.Duration;
import java.util.List;
import java.util.UUID;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.RedisScript;

class SetNxLock {
    private static final String CLIENT = UUID.randomUUID().toString();
    private static final RedisScript<Long> UNLOCK = RedisScript.of("""
            if redis.call('get', KEYS[1]) == ARGV[1] then
                return redis.call('del', KEYS[1])
            end
            return 0
            """, Long.class);

    private final StringRedisTemplate redis;
    private final String key;
    private final Duration ttl;

    SetNxLock(StringRedisTemplate redis, String key, Duration ttl) {
        this.redis = redis;
        this.key = key;
        this.ttl = ttl;
    }

    boolean tryLock(Duration wait) throws InterruptedException {
        long end = System.nanoTime() + wait.toNanos();
        while (!Boolean.TRUE.equals(redis.opsForValue().setIfAbsent(key, owner(), ttl))) {
            if (System.nanoTime() >= end) {
                return false;
            }
            Thread.sleep(50);
        }
        return true;
    }

    void unlock() {
        redis.execute(UNLOCK, List.of(key), owner());
    }

    private static String owner() {
        return CLIENT + "-" + Thread.currentThread().getId();
    }
}

import java.time.Duration;
import java.util.List;
import java.util.Timer;
import java.util.TimerTask;
import java.util.UUID;
import org.springframework.data.redis.core.StringRedisTemplate;
import org.springframework.data.redis.core.script.RedisScript;

class HashLock {
    private static final String CLIENT = UUID.randomUUID().toString();
    private static final RedisScript<Long> LOCK = RedisScript.of("""
            if redis.call('exists', KEYS[1]) == 0 or redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
                redis.call('hincrby', KEYS[1], ARGV[1], 1)
                redis.call('pexpire', KEYS[1], ARGV[2])
                return 1
            end
            return 0
            """, Long.class);
    private static final RedisScript<Long> RENEW = RedisScript.of("""
            if redis.call('hexists', KEYS[1], ARGV[1]) == 1 then
                return redis.call('pexpire', KEYS[1], ARGV[2])
            end
            return 0
            """, Long.class);
    private static final RedisScript<Long> UNLOCK = RedisScript.of("""
            if redis.call('hexists', KEYS[1], ARGV[1]) == 0 then
                return -1
            end
            local left = redis.call('hincrby', KEYS[1], ARGV[1], -1)
            if left == 0 then
                redis.call('del', KEYS[1])
            end
            return left
            """, Long.class);

    private final StringRedisTemplate redis;
    private final String key;
    private final Duration ttl;
    private Timer renewal;

    HashLock(StringRedisTemplate redis, String key, Duration ttl) {
        this.redis = redis;
        this.key = key;
        this.ttl = ttl;
    }

    boolean tryLock(Duration wait) throws InterruptedException {
        long end = System.nanoTime() + wait.toNanos();
        while (!run(LOCK, owner())) {
            if (System.nanoTime() >= end) {
                return false;
            }
            Thread.sleep(50);
        }
        startRenewal();
        return true;
    }

    void unlock() {
        long left = redis.execute(UNLOCK, List.of(key), owner());
        if (left < 0) {
            throw new IllegalMonitorStateException("not the owner of " + key);
        }
        if (left == 0) {
            stopRenewal();
        }
    }

    private void startRenewal() {
        if (renewal != null) {
            return;
        }
        var owner = owner();
        renewal = new Timer(true);
        var task = new TimerTask() {
            @Override
            public void run() {
                if (!HashLock.this.run(RENEW, owner)) {
                    cancel();
                }
            }
        };
        renewal.schedule(task, ttl.toMillis() / 3, ttl.toMillis() / 3);
    }

    void stopRenewal() {
        if (renewal != null) {
            renewal.cancel();
            renewal = null;
        }
    }

    private boolean run(RedisScript<Long> script, String owner) {
        return redis.execute(script, List.of(key), owner, String.valueOf(ttl.toMillis())) == 1;
    }

    private static String owner() {
        return CLIENT + ":" + Thread.currentThread().getId();
    }
}

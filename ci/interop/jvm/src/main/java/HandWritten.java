import java.time.Duration;
import org.springframework.data.redis.core.StringRedisTemplate;

/** The locks of docs/migrate/hand-written.md. The page shows the classes of these locks exactly as they are here. */
final class HandWritten {
    private static final Duration TTL = Duration.ofSeconds(30);
    /** A short TTL, for tests that watch renewals. */
    private static final Duration BRIEF = Duration.ofMillis(1200);

    /** Stops the renewal timer if the caller gives a lease, which must then expire, as in a paused process. */
    private record Hash(StringRedisTemplate redis, String name, Duration ttl) implements Peer.Handle {
        @Override
        public String acquire(Duration wait, Duration lease) throws Exception {
            var lock = new HashLock(redis, name, lease == null ? ttl : lease);
            if (!lock.tryLock(wait)) {
                return "";
            }
            if (lease != null) {
                lock.stopRenewal();
            }
            return null;
        }

        @Override
        public void unlock() {
            new HashLock(redis, name, ttl).unlock();
        }
    }

    private record SetNx(StringRedisTemplate redis, String name) implements Peer.Handle {
        @Override
        public String acquire(Duration wait, Duration lease) throws Exception {
            return new SetNxLock(redis, name, lease == null ? TTL : lease).tryLock(wait) ? null : "";
        }

        @Override
        public void unlock() {
            new SetNxLock(redis, name, TTL).unlock();
        }
    }

    /** The lock makes single attempts only, so a wait repeats them. `withoutCompare` deletes the key without comparing. */
    private record Seckill(StringRedisTemplate redis, String name, boolean withoutCompare) implements Peer.Handle {
        @Override
        public String acquire(Duration wait, Duration lease) throws Exception {
            long end = System.nanoTime() + wait.toNanos();
            while (!new SimpleRedisLock(redis, name).tryLock(lease == null ? TTL : lease)) {
                if (System.nanoTime() >= end) {
                    return "";
                }
                Thread.sleep(50);
            }
            return null;
        }

        @Override
        public void unlock() {
            if (withoutCompare) {
                redis.delete("lock:" + name);
            } else {
                new SimpleRedisLock(redis, name).unlock();
            }
        }
    }

    private HandWritten() {}

    static Peer.Library library(String name, String url) {
        var redis = new StringRedisTemplate(SpringHandle.connect(url));
        return switch (name) {
            case "hash" -> lock -> new Hash(redis, lock, TTL);
            case "hash-brief" -> lock -> new Hash(redis, lock, BRIEF);
            case "set-nx" -> lock -> new SetNx(redis, lock);
            case "seckill" -> lock -> new Seckill(redis, lock, false);
            case "seckill-without-compare" -> lock -> new Seckill(redis, lock, true);
            default -> throw new IllegalArgumentException(name);
        };
    }
}

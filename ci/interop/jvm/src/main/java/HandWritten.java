import java.time.Duration;
import org.springframework.data.redis.core.StringRedisTemplate;

/** The locks of docs/migrate/hand-written.md, which shows their classes as they are here. */
final class HandWritten {
    private static final Duration TTL = Duration.ofSeconds(30);
    /** For who watches renewals. */
    private static final Duration BRIEF = Duration.ofMillis(1200);

    /** A lease of the caller's is to end by itself, so its timer stops, as that of a paused process does. */
    private record Hash(StringRedisTemplate redis, String name, Duration ttl) implements Peer.Handle {
        @Override
        public String take(Duration wait, Duration lease) throws Exception {
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
        public String take(Duration wait, Duration lease) throws Exception {
            return new SetNxLock(redis, name, lease == null ? TTL : lease).tryLock(wait) ? null : "";
        }

        @Override
        public void unlock() {
            new SetNxLock(redis, name, TTL).unlock();
        }
    }

    /** It only tries: who wants to wait tries again. `isCareless` deletes without comparing. */
    private record Seckill(StringRedisTemplate redis, String name, boolean isCareless) implements Peer.Handle {
        @Override
        public String take(Duration wait, Duration lease) throws Exception {
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
            if (isCareless) {
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
            case "seckill-careless" -> lock -> new Seckill(redis, lock, true);
            default -> throw new IllegalArgumentException(name);
        };
    }
}

package io.leasehold.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The method runs while it holds a lock that all instances of the program share, and programs in
 * other languages of Leasehold too.
 *
 * <pre>{@code
 * @DistributedLock(name = "'voucher:' + #userId", waitTime = "2s")
 * @Transactional
 * public Order buy(long userId) { … }
 * }</pre>
 *
 * The lock is taken before a transaction of the method begins, and released after it has ended. If
 * the lease is not valid any more when a transaction inside is to be committed, it is rolled back.
 */
@Documented
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
public @interface DistributedLock {
    /**
     * The name of the lock: an expression of Spring's language (SpEL), with the arguments as {@code
     * #userId}, {@code #p0} or {@code #a0} and beans as {@code @bean}: {@code "'voucher:' +
     * #userId"}. Or a template: {@code "voucher:#{#userId}"}. Placeholders as <code>${shop.name}</code>
     * are replaced before. An expression that gives several names, as a collection or an array,
     * takes all of these locks as one.
     */
    String name();

    /** Which lock of that name. */
    LockKind kind() default LockKind.LOCK;

    /** How many permits there are, of {@link LockKind#SEMAPHORE} only: 1 to 1,000,000. */
    int limit() default 0;

    /**
     * How long to wait, as {@code "500ms"}, {@code "2s"} or {@code "PT2S"}; {@code "0s"} tries once.
     * Default: the property {@code leasehold.wait}; without it, as long as the server answers.
     */
    String waitTime() default "";

    /**
     * A fixed lease that nobody renews, 100 ms to 24 h, as {@code "10s"}. Default: the lease of the
     * client, renewed until the method ends.
     */
    String lease() default "";

    /** What becomes of the call if the lock is not granted within {@link #waitTime()}. */
    OnBusy onBusy() default OnBusy.THROW;

    /**
     * A method of the same class that is called in place of this one if the lock is not granted: of
     * the same arguments, or of these and a {@link io.leasehold.LeaseholdException}, and of the same
     * result. With {@link OnBusy#THROW} only.
     */
    String busyHandler() default "";

    /** Why the lock is needed, for people: in the {@code locks} endpoint and in the log. */
    String reason() default "";
}

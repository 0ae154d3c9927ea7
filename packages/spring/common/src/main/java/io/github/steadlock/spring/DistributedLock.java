package io.github.steadlock.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * The method runs while it holds a lock that all instances of the program share, and programs in
 * other languages of Steadlock too.
 *
 * <pre>{@code
 * @DistributedLock(name = "'voucher:' + #userId", waitTime = "2s")
 * @Transactional
 * public Order buy(long userId) { … }
 * }</pre>
 *
 * The lock is acquired before a transaction of the method begins, and released after it has ended.
 * If the lease is not valid any more just before a transaction within is to be committed, that is
 * rolled back with {@link CommitRefusedException}.
 *
 * <p>A blocking method holds the lock by its thread, which may enter again; a method that gives a
 * {@code CompletionStage}, until that has completed; one that gives a publisher, and a suspend
 * function, for each subscriber until it has ended. These enter again from within the same context,
 * and are refused with {@link IllegalStateException} where they would wait for themselves.
 *
 * <p>The call throws {@link io.github.steadlock.LockTimeoutException} if the lock is not granted in
 * time, {@link io.github.steadlock.UnavailableException} if the server does not answer, and {@link
 * IllegalArgumentException} if the arguments give no name; the method does not run then. If the
 * lease was lost and the method ended well, it throws {@link
 * io.github.steadlock.LockLostException}; what the method throws goes before that, with the loss
 * among its suppressed exceptions. An interrupt or a cancellation while it waits leaves nothing
 * behind: the call throws {@link InterruptedException} if the method declares it, else {@link
 * LockInterruptedException} with the interrupt still set.
 *
 * <p>What cannot work as it is written stops the start with {@link InvalidAnnotationException}.
 */
@Documented
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
public @interface DistributedLock {
    /**
     * The name of the lock: an expression of Spring's language (SpEL), with the arguments as {@code
     * #userId}, {@code #p0} or {@code #a0}, and beans as {@code @bean}: {@code "'voucher:' +
     * #userId"}. Or a template: {@code "voucher:#{#userId}"}. Placeholders as <code>${shop.name}
     * </code> are replaced before. An expression that gives several names, as a collection or an
     * array, acquires all of these locks as one, each once; such a lease has no fencing token.
     *
     * <p>A null in place of the name or of an argument that is joined to it is refused, as all such
     * calls would share one lock.
     */
    String name();

    /**
     * The {@link io.github.steadlock.SteadlockClient} that has the lock, by the name of its bean or
     * a placeholder. Default: the only client, or of several the one that is {@code @Primary}.
     * Locks of two clients are two locks, whatever their names: the lease of one never enters the
     * other again.
     */
    String client() default "";

    /** Which lock of that name. */
    LockKind kind() default LockKind.LOCK;

    /** How many permits there are, of {@link LockKind#SEMAPHORE} only: 1 to 1,000,000. */
    int limit() default 0;

    /**
     * How long to wait, as {@code "500ms"}, {@code "2s"} or {@code "PT2S"}, or a placeholder;
     * {@code "0s"} tries once. Default: the property {@code steadlock.wait}; without it, as long as
     * the server answers.
     */
    String waitTime() default "";

    /**
     * A fixed lease that nobody renews, 100 ms to 24 h, as {@code "10s"}. Default: the lease of the
     * client, renewed until the method ends.
     */
    String lease() default "";

    /**
     * What becomes of the call if the lock is not granted within {@link #waitTime()}, or is skipped
     * because its server is known not to answer.
     */
    OnBusy onBusy() default OnBusy.THROW;

    /**
     * A method of the same class that is called in place of this one if the lock is not granted, or
     * is skipped: of the same arguments, or of these and a {@link
     * io.github.steadlock.SteadlockException}, and of the same result. It may be private; its own
     * annotations do nothing, as it is called without the proxy. With {@link OnBusy#THROW} only.
     */
    String busyHandler() default "";

    /**
     * The fate of the lock if the caller cancels the {@code CompletableFuture} of a method that
     * gives a {@code CompletionStage}. Of such methods only: a publisher and a suspend function are
     * always cancelled themselves.
     */
    OnCancel onCancel() default OnCancel.KEEP;

    /**
     * Why the lock is needed, for people: {@link io.github.steadlock.spring.aop.LockReasons} has it
     * while the method holds the lock or waits for it.
     */
    String reason() default "";
}

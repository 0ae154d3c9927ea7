package io.github.steadlock.spring;

import java.lang.annotation.Documented;
import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Runs the method while it holds a lock. All instances of the program share the lock, and so do
 * programs in other languages of Steadlock.
 *
 * <pre>{@code
 * @DistributedLock(name = "'voucher:' + #userId", waitTime = "2s")
 * @Transactional
 * public Order buy(long userId) { … }
 * }</pre>
 *
 * The lock is acquired before a transaction of the method begins, and released after the
 * transaction has ended. If the lease is not valid any more just before the commit of a transaction
 * inside, the transaction is rolled back with {@link CommitRefusedException}, unless {@code
 * steadlock.annotation.commit-guard} is false. A reactive transaction by a {@code
 * TransactionalOperator} needs {@link CommitGuard#requireValidReactive} for that.
 *
 * <p>The result type decides how long the lock is held. For a blocking method, the calling thread
 * holds the lock until the method returns. A method that returns a {@code CompletionStage} holds
 * the lock until the stage has completed. A method that returns a publisher, or a suspend function,
 * holds the lock for each subscriber until the publisher has ended. If the method joins a
 * transaction that had begun before the call, the lock is held until that transaction has ended.
 *
 * <p>An annotated method that is called inside, on the same thread or in the same context, can
 * re-enter the lock, if the kind of the lock is reentrant. If the inner call would wait for its own
 * caller instead, it fails at once with {@link IllegalStateException} or {@link
 * io.github.steadlock.InvalidArgumentException}.
 *
 * <p>Unless {@link #onBusy()} or {@link #busyHandler()} gives another answer, the call throws
 * {@link io.github.steadlock.LockTimeoutException} if the lock is not granted in time. It throws
 * {@link io.github.steadlock.UnavailableException} if the server does not answer, and {@link
 * IllegalArgumentException} if the arguments give no name. The method does not run in these cases.
 * If the lease was lost and the method did not throw, the call throws {@link
 * io.github.steadlock.LockLostException}. If the method threw, the call throws the method's
 * exception, with the loss among its suppressed exceptions. If the result is a stage or a
 * publisher, it fails with these exceptions of Steadlock, and the call does not throw them. If the
 * call is interrupted or cancelled while it waits, the attempt is undone in the background. After
 * an interrupt, the call throws {@link InterruptedException} if the method declares it; otherwise
 * it throws {@link LockInterruptedException}, and the thread's interrupt status stays set.
 *
 * <p>An annotation that cannot work stops the start of the program with {@link
 * InvalidAnnotationException}.
 */
@Documented
@Target({ElementType.METHOD, ElementType.ANNOTATION_TYPE})
@Retention(RetentionPolicy.RUNTIME)
public @interface DistributedLock {
    /**
     * The name of the lock: an expression of Spring's language (SpEL), with the arguments as {@code
     * #userId}, {@code #p0} or {@code #a0}, and beans as {@code @bean}: {@code "'voucher:' +
     * #userId"}. A template works too: {@code "voucher:#{#userId}"}. Placeholders such as {@code
     * ${shop.name}} are replaced first. If the expression gives several names, as a collection or
     * an array, the method acquires a composite lock of all of them, each once; its lease has no
     * fencing token.
     *
     * <p>The name and the arguments that are joined to it must not be null, because all such calls
     * would share one lock.
     */
    String name();

    /**
     * The {@link io.github.steadlock.SteadlockClient} of the lock: the name of its bean, or a
     * placeholder. Default: the only client, or the {@code @Primary} one of several. Locks of two
     * clients are different locks, even if they have the same name: the lease of one never
     * re-enters the other.
     */
    String client() default "";

    /** The kind of the lock. */
    LockKind kind() default LockKind.LOCK;

    /** The number of permits, 1 to 1,000,000; for {@link LockKind#SEMAPHORE} only. */
    int limit() default 0;

    /**
     * How long to wait, such as {@code "500ms"}, {@code "2s"} or {@code "PT2S"}, or a placeholder.
     * {@code "0s"} makes a single attempt. Default: the property {@code steadlock.wait}; without
     * it, as long as the server answers.
     */
    String waitTime() default "";

    /**
     * The length of a fixed lease, which is not renewed, 100 ms to 24 h, such as {@code "10s"}.
     * Default: the lease of the client, renewed until the method ends.
     */
    String lease() default "";

    /**
     * How the call ends if the lock is not granted within {@link #waitTime()}, or is skipped
     * because the circuit breaker of its server is open.
     */
    OnBusy onBusy() default OnBusy.THROW;

    /**
     * The name of a method of the same class that is called instead of this one if the lock is not
     * granted or is skipped. The method must have the same result type and the same parameters,
     * optionally followed by a {@link io.github.steadlock.SteadlockException}. The method can be
     * private. Annotations on it have no effect, because it is called without the proxy. Only with
     * {@link OnBusy#THROW}.
     */
    String busyHandler() default "";

    /**
     * Whether the lock is kept or released if the caller cancels the {@code CompletableFuture} of a
     * method that returns a {@code CompletionStage}. For such methods only: cancelling a publisher
     * or a suspend function always cancels the method too.
     */
    OnCancel onCancel() default OnCancel.KEEP;

    /**
     * The reason why the method needs the lock, for people. {@link
     * io.github.steadlock.spring.aop.LockReasons} returns the reason while the method holds the
     * lock or waits for it.
     */
    String reason() default "";
}

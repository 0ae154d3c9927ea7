package io.github.steadlock

import java.time.Duration
import java.util.concurrent.CompletionStage
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.Condition
import java.util.concurrent.locks.Lock

/**
 * A lock that programs in all languages of Steadlock share under its name.
 *
 * A thread, platform or virtual, owns the lock, as with [java.util.concurrent.locks.ReentrantLock]: the thread that
 * holds the lock may acquire it again, with no server call unless it needs a longer lease, and only that thread may
 * [unlock] it. A [SteadlockClient.mutex] and the lock of a [Steadlock.redlock] client are not reentrant. When a thread
 * ends, the client releases the thread's hold within about a second, unless the program still has a [Lease] of it.
 * Waiting threads park in Java, so virtual threads do not pin their carrier.
 *
 * Without a lease of your own, or with one that is [LockOptions.renewed], the client renews the lock until it is
 * unlocked. If the lock is lost nevertheless (the server lost its record, was unreachable for too long, or granted the
 * lock to another owner), [Lease.onLost] reports the loss and [unlock] throws.
 *
 * All methods that acquire the lock throw [InvalidArgumentException] for a bad name or duration (nothing is sent then),
 * [UnavailableException] if the server does not answer (a wait without bound throws it after one lease of the client
 * without any reply), [MisconfiguredException] if the key of the lock has another type, [LockLostException] if the
 * calling thread has lost an auto-renewed lease of the lock and has not unlocked it since, and [ClosedException] on a
 * closed client. If the lock's options bound the wait, [lock], [lockInterruptibly], [lockAsync] and [withLock] throw
 * [LockTimeoutException] at its end.
 *
 * With a circuit breaker ([SteadlockBuilder.breaker]), [OnUnavailable] decides how an acquisition ends while the
 * breaker is open: the methods throw [UnavailableException] at once, acquire the lock in this client alone
 * ([Lease.isDegraded]), or skip it. If the lock is skipped, methods that return a [Boolean] return false, and the
 * others throw [UnavailableException] with [SteadlockException.isSkipped] set.
 */
public interface NamedLock :
    Lock,
    LockScope {
    /** The name under which other programs know this lock. */
    public val name: String

    /**
     * Acquires the lock and waits for it as long as the server answers. An interrupt does not end the wait: the
     * thread's interrupt status is set again afterwards.
     */
    override fun lock()

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, and waits for it as long as the server answers. An
     * interrupt does not end the wait: the thread's interrupt status is set again afterwards.
     *
     * @param lease 100 ms to 24 h
     */
    public fun lock(lease: Duration): Lease

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, and waits for it as long as the server answers. An
     * interrupt does not end the wait: the thread's interrupt status is set again afterwards.
     *
     * @param lease 100 ms to 24 h; -1 for a lease that is renewed until [unlock]
     */
    public fun lock(lease: Long, unit: TimeUnit)

    /**
     * Acquires the lock, and waits for it as long as the server answers.
     *
     * @throws InterruptedException if the thread is interrupted; the attempt is undone in the background
     */
    @Throws(InterruptedException::class)
    override fun lockInterruptibly()

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, and waits for it as long as the server answers.
     *
     * @param lease 100 ms to 24 h; -1 for a lease that is renewed until [unlock]
     * @throws InterruptedException if the thread is interrupted; the attempt is undone in the background
     */
    @Throws(InterruptedException::class)
    public fun lockInterruptibly(lease: Long, unit: TimeUnit)

    /**
     * Acquires the lock in a single attempt, if it is free now. The reply of the server can take as long as the command
     * timeout. An interrupt does not end the call: the thread's interrupt status is set again afterwards.
     */
    override fun tryLock(): Boolean

    /**
     * Acquires the lock if it becomes free within [time].
     *
     * @throws InterruptedException if the thread is interrupted; the attempt is undone in the background
     */
    @Throws(InterruptedException::class)
    override fun tryLock(time: Long, unit: TimeUnit): Boolean

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, if it becomes free within [wait].
     *
     * @param wait how long to wait; zero or less makes a single attempt
     * @param lease 100 ms to 24 h; -1 for a lease that is renewed until [unlock]
     * @throws InterruptedException if the thread is interrupted; the attempt is undone in the background
     */
    @Throws(InterruptedException::class)
    public fun tryLock(wait: Long, lease: Long, unit: TimeUnit): Boolean

    /**
     * Acquires the lock if it becomes free within [wait].
     *
     * @param wait how long to wait; zero or less makes a single attempt
     * @throws InterruptedException if the thread is interrupted; the attempt is undone in the background
     */
    @Throws(InterruptedException::class)
    public fun tryLock(wait: Duration): Boolean

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, if it becomes free within [wait].
     *
     * @param wait how long to wait; zero or less makes a single attempt
     * @param lease 100 ms to 24 h
     * @throws InterruptedException if the thread is interrupted; the attempt is undone in the background
     */
    @Throws(InterruptedException::class)
    public fun tryLock(wait: Duration, lease: Duration): Boolean

    /**
     * Releases the lock, or one level of it if the thread acquired it several times. Waits one command timeout at the
     * most. If the server does not answer by then, the client retries the release in the background.
     *
     * @throws IllegalMonitorStateException if the calling thread does not hold the lock, with [NotOwnerException] as
     * its cause. A thread whose fixed lease was lost does not hold the lock, because the client forgets such a lease.
     * Holds of other owners are not touched
     * @throws LockLostException if an auto-renewed lease was lost before, or if this release is the first to notice a
     * loss. In a `finally` block this exception hides that of the body; [withLock] and a `try` with the [lease] as its
     * resource keep both
     */
    override fun unlock()

    /** Acquires the lock with no thread as its owner, with this lock's options. See the other [lockAsync]. */
    public fun lockAsync(): CompletionStage<Lease>

    /**
     * Acquires the lock with no thread as its owner: any code that has the lease may release it. Each call has an owner
     * of its own, also in one thread. To re-enter, use [LockOptions.within] or [Lease.makeCurrent].
     *
     * The stage completes on a thread of its own or on the executor of [SteadlockBuilder.callbackExecutor]. It
     * completes exceptionally with the exceptions of the other methods, or with [LockTimeoutException] if [options] or
     * the lock's own options bound the wait. To give up the attempt before the grant, cancel the stage's
     * `toCompletableFuture()` or a stage that depends on it, or complete one of these, as `orTimeout` does; the attempt
     * is undone in the background. Keep the lease: if the program drops an auto-renewed lease without a release, the
     * lock stays held and the client logs a warning. If no code took the lease from the stage, the client releases it.
     *
     * @param options the options of this call; they override this lock's own options
     */
    public fun lockAsync(options: LockOptions): CompletionStage<Lease>

    /**
     * Runs [action] while the calling thread holds the lock. An interrupt does not end the wait: the thread's interrupt
     * status is set again afterwards.
     *
     * @throws LockLostException if the lock was lost meanwhile. If [action] threw, its exception is thrown instead,
     * with this one among its suppressed exceptions
     * @throws UnavailableException if the server does not answer, or the lock is skipped ([OnUnavailable.SKIP]);
     * [action] does not run then
     */
    @JvmSynthetic
    public fun <T> withLock(action: (Lease) -> T): T = withLock(LockedAction<T, RuntimeException> { action(it) })

    /** Whether the lock is held by any owner, according to the server. Throws the exceptions of [holder]. */
    public val isLocked: Boolean

    /**
     * Returns the holder of the lock according to the server, or null if the lock is free. If there are several readers
     * or holders of permits, returns the one whose record ends last. Makes one call to the server, or one to each
     * primary of a RedLock.
     *
     * @throws InvalidArgumentException if the name is bad, or this is a lock of [SteadlockClient.multiLock]: ask each
     * member for its holder
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws MisconfiguredException if the key of the lock has another type
     * @throws ClosedException if the client was closed
     */
    public fun holder(): Holder?

    /** Whether the calling thread holds the lock with a valid lease. Makes no server call. */
    public val isHeldByCurrentThread: Boolean

    /**
     * How many times the calling thread holds the lock; 0 if it does not hold the lock or has lost it. Makes no server
     * call.
     */
    public val holdCount: Int

    /**
     * The calling thread's lease, or null if it does not hold the lock. If the thread acquired the lock several times,
     * this is the innermost lease. An auto-renewed lease that was lost stays here until the thread calls [unlock].
     * Makes no server call.
     */
    public val lease: Lease?

    /** @throws UnsupportedOperationException always, because processes cannot share a condition */
    override fun newCondition(): Condition =
        throw UnsupportedOperationException("a distributed lock has no conditions; wait for the data itself")
}

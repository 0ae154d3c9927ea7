package io.github.steadlock

import java.time.Duration
import java.util.concurrent.CompletionStage
import java.util.concurrent.TimeUnit
import java.util.concurrent.locks.Condition
import java.util.concurrent.locks.Lock

/**
 * A lock that programs in all languages of Steadlock share by its name.
 *
 * Owned by threads, platform or virtual, as [java.util.concurrent.locks.ReentrantLock] is: the thread that holds it
 * may acquire it again with no server call (unless it is a [SteadlockClient.mutex]), and only that thread may
 * [unlock] it. The hold of a thread that ended is released within about a second, unless the program still has its
 * [Lease]. Waiting threads park in Java, so virtual threads do not pin their carrier.
 *
 * Without a lease of your own, or with one that is [LockOptions.renewed], the lock is renewed until it is unlocked. If
 * it is lost all the same (the server lost its record, was unreachable for too long, or gave it to another),
 * [Lease.onLost] says so and [unlock] throws.
 *
 * All methods that acquire the lock throw [InvalidArgumentException] for a bad name or duration, with nothing sent,
 * [UnavailableException] if the server does not answer (a wait without bound ends so after one lease of the client
 * without any answer), [MisconfiguredException] for a key of another type under the name, [LockLostException] if the
 * calling thread holds the lock but has lost it, [ClosedException] on a closed client, and, those without a wait of
 * their own, [LockTimeoutException] if the lock's options bound the wait.
 *
 * With a circuit breaker ([SteadlockBuilder.breaker]), what becomes of it while the server is known not to answer is the
 * affair of [OnUnavailable]: they throw [UnavailableException] at once, acquire the lock in this client alone
 * ([Lease.isDegraded]), or skip it. Of a lock that is skipped, those that give a [Boolean] give false, and the others
 * throw [UnavailableException], which [SteadlockException.isSkipped].
 */
public interface NamedLock :
    Lock,
    LockScope {
    /** The name that other programs know this lock by. */
    public val name: String

    /** Acquires the lock, and waits for it as long as the server answers. An interrupt is kept for later. */
    override fun lock()

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, and waits for it as long as the server answers. An
     * interrupt is kept for later.
     *
     * @param lease 100 ms to 24 h
     */
    public fun lock(lease: Duration): Lease

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, and waits for it as long as the server answers. An
     * interrupt is kept for later.
     *
     * @param lease 100 ms to 24 h; -1 for one that is renewed until [unlock]
     */
    public fun lock(lease: Long, unit: TimeUnit)

    /**
     * Acquires the lock, and waits for it as long as the server answers.
     *
     * @throws InterruptedException if the thread is interrupted; nothing of the attempt stays behind
     */
    @Throws(InterruptedException::class)
    override fun lockInterruptibly()

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, and waits for it as long as the server answers.
     *
     * @param lease 100 ms to 24 h; -1 for one that is renewed until [unlock]
     * @throws InterruptedException if the thread is interrupted; nothing of the attempt stays behind
     */
    @Throws(InterruptedException::class)
    public fun lockInterruptibly(lease: Long, unit: TimeUnit)

    /**
     * Acquires the lock if it is free now: one call to the server, which may take as long as the command timeout. An
     * interrupt is kept for later.
     */
    override fun tryLock(): Boolean

    /**
     * Acquires the lock if it becomes free within [time].
     *
     * @throws InterruptedException if the thread is interrupted; nothing of the attempt stays behind
     */
    @Throws(InterruptedException::class)
    override fun tryLock(time: Long, unit: TimeUnit): Boolean

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, if it becomes free within [wait].
     *
     * @param wait zero or less tries once
     * @param lease 100 ms to 24 h; -1 for one that is renewed until [unlock]
     * @throws InterruptedException if the thread is interrupted; nothing of the attempt stays behind
     */
    @Throws(InterruptedException::class)
    public fun tryLock(wait: Long, lease: Long, unit: TimeUnit): Boolean

    /**
     * Acquires the lock if it becomes free within [wait].
     *
     * @param wait zero or less tries once
     * @throws InterruptedException if the thread is interrupted; nothing of the attempt stays behind
     */
    @Throws(InterruptedException::class)
    public fun tryLock(wait: Duration): Boolean

    /**
     * Acquires the lock with a fixed [lease], which is not renewed, if it becomes free within [wait].
     *
     * @param wait zero or less tries once
     * @param lease 100 ms to 24 h
     * @throws InterruptedException if the thread is interrupted; nothing of the attempt stays behind
     */
    @Throws(InterruptedException::class)
    public fun tryLock(wait: Duration, lease: Duration): Boolean

    /**
     * Releases the lock, one level of it if the thread acquired it several times. Waits one command timeout at the
     * most; if the server does not answer by then, the release is retried in the background.
     *
     * @throws IllegalMonitorStateException if the calling thread does not hold the lock, also because a fixed lease has
     * expired and was forgotten, with [NotOwnerException] as its cause. Nobody else's hold is touched
     * @throws LockLostException if the lock was lost before, also if this release is the first to find that out. In a
     * `finally` this hides what the body threw; [withLock], or `try (var lease = lock.getLease())`, does not
     */
    override fun unlock()

    /** Acquires the lock for no thread, with this lock's options. See the other [lockAsync]. */
    public fun lockAsync(): CompletionStage<Lease>

    /**
     * Acquires the lock for no thread: the lease is the key, and any code that has it may release it. Two calls
     * exclude each other also in one thread; re-enter with [LockOptions.within].
     *
     * The stage completes on a thread of its own or on the executor of [SteadlockBuilder.callbackExecutor],
     * exceptionally with what the other methods throw, or with [LockTimeoutException] if [options] bound the wait.
     * Cancelling its `toCompletableFuture()`, or a stage that depends on it, before the grant gives the attempt up, and
     * nothing of it stays behind; so does completing one of these, as `orTimeout` does. Keep the lease: one that the
     * program drops without a release stays held, of which a warning tells, unless no code took it from the stage.
     *
     * @param options what they set goes before this lock's own options
     */
    public fun lockAsync(options: LockOptions): CompletionStage<Lease>

    /**
     * Runs [action] while the calling thread holds the lock. An interrupt during the wait is kept for later.
     *
     * @throws LockLostException if the lock was lost meanwhile, unless [action] threw: what it threw comes out, with
     * the other among its suppressed exceptions
     * @throws UnavailableException if the server does not answer, or the lock is skipped ([OnUnavailable.SKIP]);
     * [action] does not run
     */
    @JvmSynthetic
    public fun <T> withLock(action: (Lease) -> T): T = withLock(LockedAction<T, RuntimeException> { action(it) })

    /** Whether anybody holds the lock, as the server has it. One call to the server. */
    public val isLocked: Boolean

    /**
     * Who holds the lock, as the server has it, or null if it is free. Of several readers, or of holders of permits,
     * the one whose record ends last. One call to the server.
     *
     * @throws InvalidArgumentException if the name is bad, or this is several locks as one: ask each of them
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws MisconfiguredException if a key of another type is in the lock's place
     * @throws ClosedException if the client was closed
     */
    public fun holder(): Holder?

    /** Whether the calling thread holds the lock, by a lease that is valid. Does not ask the server. */
    public val isHeldByCurrentThread: Boolean

    /** How many times the calling thread holds the lock; 0 if it does not, or has lost it. Does not ask the server. */
    public val holdCount: Int

    /**
     * The calling thread's lease, the innermost if it acquired the lock several times, or null if it does not hold the
     * lock. One that was renewed and is lost is here until it is left by [unlock]. Does not ask the server.
     */
    public val lease: Lease?

    /** @throws UnsupportedOperationException always: a condition cannot be shared between processes */
    override fun newCondition(): Condition =
        throw UnsupportedOperationException("a distributed lock has no conditions; wait for the data itself")
}

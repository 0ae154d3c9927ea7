package io.github.steadlock

import java.time.Duration
import java.util.concurrent.CompletionStage

/**
 * A semaphore: a number of permits that programs in all languages of Steadlock share under its name. Each lease holds
 * all permits that its call asked for. Leases have no token.
 *
 * The server keeps the limit while any permit is held: an acquisition with another limit throws
 * [MisconfiguredException] then. Permits of a process that died become free when their lease ends. Permits of a thread
 * that ended become free when their [Lease] is garbage or has ended. A semaphore is not reentrant: each call acquires
 * further permits.
 *
 * Without a lease of your own, or with one that is [LockOptions.renewed], the client renews permits until they are
 * released. If they are lost nevertheless, [Lease.onLost] reports the loss.
 *
 * All methods that acquire permits throw [InvalidArgumentException] for a bad name, number or duration (nothing is sent
 * then), [UnavailableException] if the server does not answer (a wait without bound throws it after one lease of the
 * client without any reply), [MisconfiguredException] for another limit or if the key has another type, and
 * [ClosedException] on a closed client. If the semaphore's options bound the wait, [acquire], [acquireAsync] and
 * [withPermits] throw [LockTimeoutException] at its end.
 *
 * With a circuit breaker ([SteadlockBuilder.breaker]), these methods throw [UnavailableException] at once while the
 * breaker is open. This is so with [OnUnavailable.LOCAL] too, because only the server can count permits. With
 * [OnUnavailable.SKIP], methods that return null for "not free" return null, and the others throw
 * [UnavailableException] with [SteadlockException.isSkipped] set.
 */
public interface NamedSemaphore : PermitScope {
    /** The name under which other programs know this semaphore. */
    public val name: String

    /** The number of permits. */
    public val limit: Int

    /** Acquires one permit. See the other [acquire]. */
    @Throws(InterruptedException::class)
    public fun acquire(): Lease = acquire(1)

    /**
     * Acquires [permits] permits with one lease and waits for them as long as the server answers.
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @throws InterruptedException if the thread is interrupted; the attempt is undone in the background
     */
    @Throws(InterruptedException::class)
    public fun acquire(permits: Int): Lease

    /** Acquires one permit if it is free now. See the other [tryAcquire]. */
    public fun tryAcquire(): Lease? = tryAcquire(1)

    /**
     * Acquires [permits] permits if they are free now. Makes one call to the server, which can take as long as the
     * command timeout. An interrupt does not end the call: the thread's interrupt status is set again afterwards.
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @return null if they are not free
     */
    public fun tryAcquire(permits: Int): Lease?

    /**
     * Acquires [permits] permits if they become free within [wait].
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @param wait how long to wait; zero or less makes a single attempt
     * @return null if they did not become free
     * @throws InterruptedException if the thread is interrupted; the attempt is undone in the background
     */
    @Throws(InterruptedException::class)
    public fun tryAcquire(permits: Int, wait: Duration): Lease?

    /**
     * Acquires [permits] permits with a fixed [lease], which is not renewed, if they become free within [wait].
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @param wait how long to wait; zero or less makes a single attempt
     * @param lease 100 ms to 24 h
     * @return null if they did not become free
     * @throws InterruptedException if the thread is interrupted; the attempt is undone in the background
     */
    @Throws(InterruptedException::class)
    public fun tryAcquire(permits: Int, wait: Duration, lease: Duration): Lease?

    /** Acquires one permit with no thread as its owner. See the other [acquireAsync]. */
    public fun acquireAsync(): CompletionStage<Lease> = acquireAsync(1)

    /**
     * Acquires [permits] permits with no thread as their owner, with this semaphore's options. See the other
     * [acquireAsync].
     */
    public fun acquireAsync(permits: Int): CompletionStage<Lease> = acquireAsync(permits, LockOptions.DEFAULT)

    /**
     * Acquires [permits] permits with no thread as their owner: any code that has the lease may release it.
     *
     * The stage completes on a thread of its own or on the executor of [SteadlockBuilder.callbackExecutor]. It
     * completes exceptionally with the exceptions of the other methods, or with [LockTimeoutException] if [options] or
     * the semaphore's own options bound the wait. To give up the attempt before the grant, cancel the stage's
     * `toCompletableFuture()` or a stage that depends on it; the attempt is undone in the background. Keep the lease,
     * as [NamedLock.lockAsync] describes.
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @param options the options of this call; they override this semaphore's own options
     */
    public fun acquireAsync(permits: Int, options: LockOptions): CompletionStage<Lease>

    /**
     * Releases the permits that the calling thread acquired last and still holds: all permits of that acquisition.
     * Waits one command timeout at the most. If the server does not answer by then, the client retries the release in
     * the background.
     *
     * @throws IllegalMonitorStateException if the calling thread holds no permits, with [NotOwnerException] as its
     * cause. Permits whose fixed lease was lost are not held any more. Permits of other owners are not touched
     * @throws LockLostException if an auto-renewed lease was lost before, or if this release is the first to notice a
     * loss
     */
    public fun release()

    /** Runs [action] while the calling thread holds one permit. See the other [withPermits]. */
    @JvmSynthetic
    public fun <T> withPermit(action: (Lease) -> T): T = withPermits(1, action)

    /**
     * Runs [action] while the calling thread holds [permits] permits. An interrupt does not end the wait: the thread's
     * interrupt status is set again afterwards.
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @throws LockLostException if the permits were lost meanwhile. If [action] threw, its exception is thrown instead,
     * with this one among its suppressed exceptions
     * @throws UnavailableException if the server does not answer, or the permits are skipped ([OnUnavailable.SKIP]);
     * [action] does not run then
     */
    @JvmSynthetic
    public fun <T> withPermits(permits: Int, action: (Lease) -> T): T =
        withPermits(permits, LockedAction<T, RuntimeException> { action(it) })

    /**
     * Returns how many permits are free. Makes one call to the server.
     *
     * @throws InvalidArgumentException if the name is bad, or [limit] is out of its range
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws MisconfiguredException if the key of the semaphore has another type
     * @throws ClosedException if the client was closed
     */
    public fun available(): Int

    /**
     * Returns [permits] permits as a lock, for [SteadlockClient.multiLock]. This lock is not reentrant: each
     * acquisition has a lease of its own and holds further permits. [NamedLock.isLocked] is true if any owner holds any
     * permit.
     *
     * @param permits 1 to 1,000, and no more than [limit]; checked when the lock is used
     */
    public fun permits(permits: Int): NamedLock
}

package io.github.steadlock

import java.time.Duration
import java.util.concurrent.CompletionStage

/**
 * So many permits, which programs in all languages of Steadlock share by the semaphore's name. Each lease holds the
 * permits that it was taken for, all or none; leases have no token.
 *
 * The limit is agreed on the server while any permit is held: who then asks with another limit gets
 * [MisconfiguredException]. Permits of a process that died come back when their lease ends, and those of a thread that
 * ended once their [Lease] is garbage. Not reentrant: each call takes new permits.
 *
 * Without a lease of your own, or with one that is [LockOptions.renewed], permits are renewed until they are released.
 * If they are lost all the same, [Lease.onLost] says so.
 *
 * All methods that take permits throw [InvalidArgumentException] for a bad name, number or duration, with nothing
 * sent, [UnavailableException] if the server does not answer (a wait without bound ends so after one lease of the
 * client without any answer), [MisconfiguredException] for another limit or a key of another type, [ClosedException]
 * on a closed client, and, those without a wait of their own, [LockTimeoutException] if the semaphore's options bound
 * the wait.
 *
 * With a circuit breaker ([SteadlockBuilder.breaker]), they throw [UnavailableException] at once while the server is
 * known not to answer, also with [OnUnavailable.LOCAL], as only the server can count permits. With [OnUnavailable.SKIP]
 * those that give null for "not free" give null then, and of the others the exception [SteadlockException.isSkipped].
 */
public interface NamedSemaphore : PermitScope {
    /** The name that other programs know this semaphore by. */
    public val name: String

    /** How many permits there are. */
    public val limit: Int

    /** Takes one permit. See the other [acquire]. */
    @Throws(InterruptedException::class)
    public fun acquire(): Lease = acquire(1)

    /**
     * Takes [permits] permits by one lease, and waits for them as long as the server answers.
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @throws InterruptedException if the thread is interrupted; nothing of the attempt stays behind
     */
    @Throws(InterruptedException::class)
    public fun acquire(permits: Int): Lease

    /** Takes one permit if it is free now. See the other [tryAcquire]. */
    public fun tryAcquire(): Lease? = tryAcquire(1)

    /**
     * Takes [permits] permits if they are free now: one call to the server, which may take as long as the command
     * timeout. An interrupt is kept for later.
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @return null if they are not free
     */
    public fun tryAcquire(permits: Int): Lease?

    /**
     * Takes [permits] permits if they become free within [wait].
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @param wait zero or less tries once
     * @return null if they did not become free
     * @throws InterruptedException if the thread is interrupted; nothing of the attempt stays behind
     */
    @Throws(InterruptedException::class)
    public fun tryAcquire(permits: Int, wait: Duration): Lease?

    /**
     * Takes [permits] permits with a fixed [lease], which is not renewed, if they become free within [wait].
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @param wait zero or less tries once
     * @param lease 100 ms to 24 h
     * @return null if they did not become free
     * @throws InterruptedException if the thread is interrupted; nothing of the attempt stays behind
     */
    @Throws(InterruptedException::class)
    public fun tryAcquire(permits: Int, wait: Duration, lease: Duration): Lease?

    /** Takes one permit for nobody in particular. See the other [acquireAsync]. */
    public fun acquireAsync(): CompletionStage<Lease> = acquireAsync(1)

    /** Takes [permits] permits for nobody in particular, with this semaphore's options. See the other [acquireAsync]. */
    public fun acquireAsync(permits: Int): CompletionStage<Lease> = acquireAsync(permits, LockOptions.DEFAULT)

    /**
     * Acquires [permits] permits for no thread: any code that has the lease may release it.
     *
     * The stage completes on a thread of its own or on the executor of [SteadlockBuilder.callbackExecutor],
     * exceptionally with what the other methods throw, or with [LockTimeoutException] if [options] bound the wait.
     * Cancelling its `toCompletableFuture()`, or a stage that depends on it, before the grant gives the attempt up, and
     * nothing of it stays behind. Keep the lease, as [NamedLock.lockAsync] says.
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @param options what they set goes before this semaphore's own options
     */
    public fun acquireAsync(permits: Int, options: LockOptions): CompletionStage<Lease>

    /**
     * Releases the permits that the calling thread acquired last and still holds, all of that call. Waits one
     * command timeout at the most; if the server does not answer by then, the release is retried in the background.
     *
     * @throws IllegalMonitorStateException if the calling thread holds no permits, with [NotOwnerException] as its
     * cause. Nobody else's permits are touched
     * @throws LockLostException if they were lost before, also if this release is the first to find that out
     */
    public fun release()

    /** Runs [action] while the calling thread holds one permit. See the other [withPermits]. */
    @JvmSynthetic
    public fun <T> withPermit(action: (Lease) -> T): T = withPermits(1, action)

    /**
     * Runs [action] while the calling thread holds [permits] permits. An interrupt during the wait is kept for later.
     *
     * @param permits 1 to 1,000, and no more than [limit]
     * @throws LockLostException if the permits were lost meanwhile, unless [action] threw: what it threw comes out,
     * with the other among its suppressed exceptions
     * @throws UnavailableException if the server does not answer, or the permits are skipped ([OnUnavailable.SKIP]);
     * [action] does not run
     */
    @JvmSynthetic
    public fun <T> withPermits(permits: Int, action: (Lease) -> T): T =
        withPermits(permits, LockedAction<T, RuntimeException> { action(it) })

    /**
     * Asks the server how many permits are free. One call to the server.
     *
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws ClosedException if the client was closed
     */
    public fun available(): Int

    /**
     * [permits] permits as a lock, as [SteadlockClient.multiLock] takes it. It is held once at a time by each lease,
     * not reentrant, and [NamedLock.isLocked] if anybody holds any permit.
     *
     * @param permits 1 to 1,000, and no more than [limit]; checked when it is used
     */
    public fun permits(permits: Int): NamedLock
}

package io.github.steadlock.internal

import io.github.steadlock.Holder
import io.github.steadlock.Lease
import io.github.steadlock.LockOptions
import io.github.steadlock.LockedAction
import io.github.steadlock.NamedLock
import io.github.steadlock.NotOwnerException
import io.github.steadlock.SteadlockClient
import io.github.steadlock.lostException
import java.time.Duration
import java.util.concurrent.CompletionStage
import java.util.concurrent.TimeUnit

/** A [NamedLock] of [client]. Has no state of its own. */
internal class ThreadLock(
    private val client: SteadlockClient,
    val ref: LockRef,
    val options: LockOptions,
) : NamedLock {
    val engine: Engine
        get() = client.engine

    override val name: String
        get() = ref.name

    override fun lock() {
        acquire(options)
    }

    override fun lock(lease: Duration): Lease = acquire(options.withFixedLease(lease)).lease()

    override fun lock(lease: Long, unit: TimeUnit) {
        acquire(options.withLease(lease, unit))
    }

    override fun lockInterruptibly() {
        acquireInterruptibly()
    }

    override fun lockInterruptibly(lease: Long, unit: TimeUnit) {
        leaseOf(askInterruptibly(options.withLease(lease, unit)))
    }

    override fun tryLock(): Boolean = tryNow() != null

    override fun tryLock(time: Long, unit: TimeUnit): Boolean = tryInterruptibly(options.withWait(time, unit)) != null

    override fun tryLock(wait: Long, lease: Long, unit: TimeUnit): Boolean =
        tryInterruptibly(options.withWait(wait, unit).withLease(lease, unit)) != null

    override fun tryLock(wait: Duration): Boolean = tryInterruptibly(options.withWaitFrom(wait)) != null

    override fun tryLock(wait: Duration, lease: Duration): Boolean =
        tryInterruptibly(options.withWaitFrom(wait).withFixedLease(lease)) != null

    override fun unlock() {
        val released =
            try {
                engine.releaseInnermost(ref, owner()).await().expect<Reply.Released>()
            } catch (notOwner: NotOwnerException) {
                throw IllegalMonitorStateException(notOwner.message).apply { initCause(notOwner) }
            }
        released.lostReason?.let { throw lostException(name, it) }
    }

    override fun lockAsync(): CompletionStage<Lease> = lockAsync(LockOptions.DEFAULT)

    override fun lockAsync(options: LockOptions): CompletionStage<Lease> {
        val request = engine.acquire(ref, Owner.ofStage(engine, ref), options.over(this.options))
        val result = GrantFuture { engine.cancel(request) }
        request.thenAccept { reply ->
            engine.callbacks.run {
                try {
                    val lease = leaseOf(reply)
                    if (!result.grant(lease)) {
                        lease.startRelease()
                    }
                } catch (failed: RuntimeException) {
                    result.completeExceptionally(failed)
                }
            }
        }
        return result
    }

    override fun <T, E : Exception> withLock(action: LockedAction<T, E>): T = acquire(options).lease().use(action::run)

    override val isLocked: Boolean
        get() = holder() != null

    override fun holder(): Holder? = inspect().holder

    override val isHeldByCurrentThread: Boolean
        get() = holdCount > 0

    override val holdCount: Int
        get() = held().let { if ((it.lease?.remainingNanos ?: 0) > 0) it.levels else 0 }

    override val lease: Lease?
        get() = held().lease?.lease()

    /**
     * Returns whether a holder of this lock would wait for itself if it acquired [other], a lock of the same client.
     */
    fun keepsOut(other: ThreadLock): Boolean = engine === other.engine && engine.keepsOut(ref, other.ref)

    /** Asks the server for the holder and the permits. */
    fun inspect(): Reply.State = engine.inspect(ref).await().expect()

    /** Acquires a leader's lock for no thread: any code that has the lease may release it. */
    fun campaignInterruptibly(): HeldLease = leaseOf(askInterruptibly(options, Owner.ofNoThread()))

    /** Acquires the lock with its own options. */
    fun acquireInterruptibly(): HeldLease = leaseOf(askInterruptibly(options))

    /** Acquires the lock, or returns null if it was not granted. */
    fun tryInterruptibly(options: LockOptions): HeldLease? = grantOf(askInterruptibly(options))

    /** Acquires the lock in a single attempt, or returns null if it is not free. */
    fun tryNow(): HeldLease? = grantOf(engine.acquire(ref, owner(), options.copy(waitMs = 0.0)).await())

    /** Returns what the calling thread holds. Nothing if the client was closed. */
    private fun held(): Reply.Held {
        val reply = engine.held(ref, owner()).await()
        return if (reply is Reply.Failed && reply.failure.kind == "Closed") Reply.Held(0, null) else reply.expect()
    }

    private fun owner() = Owner.current(engine, ref)

    private fun acquire(options: LockOptions): HeldLease = leaseOf(engine.acquire(ref, owner(), options).await())

    private fun askInterruptibly(options: LockOptions, owner: Owner = owner()): Reply {
        if (Thread.interrupted()) {
            throw InterruptedException("interrupted before lock \"${displayName(name)}\" was requested")
        }
        return engine.awaitInterruptibly(engine.acquire(ref, owner, options))
    }

    private fun grantOf(reply: Reply): HeldLease? = if (reply is Reply.NotGranted) null else leaseOf(reply)

    /** Returns the lease of a grant, or throws the failure. */
    private fun leaseOf(reply: Reply): HeldLease = reply.expect<Reply.Granted>().lease

    override fun toString(): String = "NamedLock(name=${displayName(name)})"
}

package io.leasehold.internal

import io.leasehold.DistributedLock
import io.leasehold.Holder
import io.leasehold.Lease
import io.leasehold.LockOptions
import io.leasehold.LockedAction
import io.leasehold.NotOwnerException
import io.leasehold.lostException
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import java.util.concurrent.TimeUnit

/** A [DistributedLock] on an [Engine]. Holds no state of its own. */
internal class ThreadLock(
    val engine: Engine,
    val key: LockKey,
    val options: LockOptions,
) : DistributedLock {
    override val name: String
        get() = key.name

    override fun lock() {
        take(options)
    }

    override fun lock(lease: Duration): Lease = take(options.withFixedLease(lease))

    override fun lockInterruptibly() {
        acquireInterruptibly()
    }

    override fun tryLock(): Boolean = tryNow() != null

    // A Lock that is given a negative time does not wait.
    override fun tryLock(time: Long, unit: TimeUnit): Boolean =
        tryLock(Duration.of(time.coerceAtLeast(0), unit.toChronoUnit()))

    override fun tryLock(wait: Duration): Boolean = tryInterruptibly(options.withWait(wait)) != null

    override fun tryLock(wait: Duration, lease: Duration): Boolean =
        tryInterruptibly(options.withWait(wait).withFixedLease(lease)) != null

    override fun unlock() {
        val released =
            try {
                engine.releaseInnermost(key, Owner.current()).await().expect<Reply.Released>()
            } catch (notOwner: NotOwnerException) {
                throw notHeld(notOwner)
            }
        released.lostReason?.let { throw notHeld(lostException(name, it)) }
    }

    override fun lockAsync(): CompletionStage<Lease> = lockAsync(LockOptions.DEFAULT)

    override fun lockAsync(options: LockOptions): CompletionStage<Lease> {
        val result = CompletableFuture<Lease>()
        val wanted = options.over(this.options)
        val request = engine.acquire(key, null, wanted)
        request.thenAccept { reply ->
            engine.callbacks.run {
                try {
                    val lease = reply.grantedWithin(wanted.within)
                    if (!result.complete(lease)) {
                        lease.startRelease()
                    }
                } catch (failed: RuntimeException) {
                    result.completeExceptionally(failed)
                }
            }
        }
        result.whenComplete { _, _ -> engine.cancel(request) }
        return result
    }

    override fun <T> withLock(action: LockedAction<T>): T = take(options).use(action::run)

    override val isLocked: Boolean
        get() = holder() != null

    override fun holder(): Holder? = inspect().holder

    override val isHeldByCurrentThread: Boolean
        get() = holdCount > 0

    override val holdCount: Int
        get() = held().levels

    override val lease: Lease
        get() {
            val message = "lease of lock \"${shown(name)}\": this thread does not hold it"
            return held().lease ?: throw notHeld(NotOwnerException(message, name, "inspect"))
        }

    /** Whether a holder of this would wait for itself if it asked for [other]. */
    fun meets(other: ThreadLock): Boolean = key.meets(other.key, engine.isRedlock)

    /** Asks the server. */
    fun inspect(): Reply.State = engine.inspect(key).await().expect()

    /** The lease, with the lock's own options. */
    fun acquireInterruptibly(): Lease = leaseOf(askInterruptibly(options))

    /** The lease, or null if it was not granted. */
    fun tryInterruptibly(options: LockOptions): Lease? = grantOf(askInterruptibly(options))

    /** The lease, or null if it is not free. */
    fun tryNow(): Lease? = grantOf(engine.acquire(key, Owner.current(), options.copy(waitMs = 0.0)).await())

    private fun held(): Reply.Held = engine.held(key, Owner.current()).await().expect()

    private fun take(options: LockOptions): Lease = leaseOf(engine.acquire(key, Owner.current(), options).await())

    private fun askInterruptibly(options: LockOptions): Reply {
        if (Thread.interrupted()) {
            throw InterruptedException("interrupted before lock \"${shown(name)}\" was asked for")
        }
        return engine.awaitInterruptibly(engine.acquire(key, Owner.current(), options))
    }

    private fun grantOf(reply: Reply): Lease? = if (reply is Reply.NotGranted) null else leaseOf(reply)

    /** The lease; a re-entry that is refused says why the lock was lost. */
    private fun leaseOf(reply: Reply): Lease = reply.expect<Reply.Granted> { held().lease?.lostReason }.lease

    private fun notHeld(cause: RuntimeException): IllegalMonitorStateException =
        IllegalMonitorStateException(cause.message).apply { initCause(cause) }

    override fun toString(): String = "DistributedLock(name=${shown(name)})"
}

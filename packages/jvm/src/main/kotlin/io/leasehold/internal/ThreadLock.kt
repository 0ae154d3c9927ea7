package io.leasehold.internal

import io.leasehold.DistributedLock
import io.leasehold.Lease
import io.leasehold.LockOptions
import io.leasehold.LockedAction
import io.leasehold.NotOwnerException
import io.leasehold.ReleaseOutcome
import io.leasehold.lostException
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import java.util.concurrent.TimeUnit

/** A [DistributedLock] on an [Engine]. Holds no state of its own. */
internal class ThreadLock(
    private val engine: Engine,
    private val key: LockKey,
    private val options: LockOptions,
) : DistributedLock {
    override val name: String
        get() = key.text

    override fun lock() {
        take(options)
    }

    override fun lock(lease: Duration): Lease = take(options.withLease(lease))

    override fun lockInterruptibly() {
        askInterruptibly(options).expect<Reply.Granted>()
    }

    override fun tryLock(): Boolean =
        isGranted(engine.acquire(key, Owner.current(), options.copy(waitMs = 0.0)).await())

    // A Lock that is given a negative time does not wait.
    override fun tryLock(time: Long, unit: TimeUnit): Boolean =
        tryLock(Duration.of(time.coerceAtLeast(0), unit.toChronoUnit()))

    override fun tryLock(wait: Duration): Boolean = takeInterruptibly(options.withWait(wait))

    override fun tryLock(wait: Duration, lease: Duration): Boolean =
        takeInterruptibly(options.withWait(wait).withLease(lease))

    override fun unlock() {
        val outcome =
            try {
                engine.releaseInnermost(key, Owner.current()).await().expect<Reply.Released>().outcome
            } catch (notOwner: NotOwnerException) {
                throw notHeld(notOwner)
            }
        if (outcome == ReleaseOutcome.EXPIRED || outcome == ReleaseOutcome.STOLEN) {
            throw notHeld(lostException(name, outcome.name))
        }
    }

    override fun lockAsync(): CompletionStage<Lease> = lockAsync(LockOptions.DEFAULT)

    override fun lockAsync(options: LockOptions): CompletionStage<Lease> {
        val result = CompletableFuture<Lease>()
        val request = engine.acquire(key, null, options.over(this.options))
        request.thenAccept { reply ->
            engine.callbacks.run {
                try {
                    val lease = reply.expect<Reply.Granted>().lease
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
        get() = engine.inspect(key).await().expect<Reply.State>().holder != null

    override val isHeldByCurrentThread: Boolean
        get() = holdCount > 0

    override val holdCount: Int
        get() = held().levels

    override val lease: Lease
        get() {
            val message = "lease of lock \"$name\": this thread does not hold it"
            return held().lease ?: throw notHeld(NotOwnerException(message, name, "inspect"))
        }

    private fun held(): Reply.Held = engine.held(key, Owner.current()).await().expect()

    private fun take(options: LockOptions): Lease =
        engine.acquire(key, Owner.current(), options).await().expect<Reply.Granted>().lease

    private fun takeInterruptibly(options: LockOptions): Boolean = isGranted(askInterruptibly(options))

    private fun askInterruptibly(options: LockOptions): Reply {
        if (Thread.interrupted()) {
            throw InterruptedException("interrupted before lock \"$name\" was asked for")
        }
        return engine.awaitInterruptibly(engine.acquire(key, Owner.current(), options))
    }

    private fun isGranted(reply: Reply): Boolean {
        if (reply is Reply.NotGranted) {
            return false
        }
        reply.expect<Reply.Granted>()
        return true
    }

    private fun notHeld(cause: RuntimeException): IllegalMonitorStateException =
        IllegalMonitorStateException(cause.message).apply { initCause(cause) }

    override fun toString(): String = "DistributedLock(name=$name)"
}

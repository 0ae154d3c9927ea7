package io.github.steadlock

import io.github.steadlock.internal.CoroutineHold
import io.github.steadlock.internal.CurrentLeases
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.HeldLease
import io.github.steadlock.internal.LockKey
import io.github.steadlock.internal.Owner
import io.github.steadlock.internal.Reply
import io.github.steadlock.internal.Request
import io.github.steadlock.internal.ThreadLock
import io.github.steadlock.internal.expect
import io.github.steadlock.internal.invalidArgument
import io.github.steadlock.internal.millis
import io.github.steadlock.internal.shown
import kotlinx.coroutines.CancellableContinuation
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.isActive
import kotlinx.coroutines.job
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlinx.coroutines.withContext
import kotlin.coroutines.resume
import kotlin.time.Duration

/**
 * Runs [block] while holding the lock [name], and releases it in the end, however [block] ends.
 *
 * Coroutines have no identity that could re-enter: two of them exclude each other, also on one thread. A call inside a
 * [block] that holds the same name must re-enter with [within]; without it, it fails at once, as it would wait for
 * itself; so it does on a thread that acts as the owner of the lock ([Lease.makeCurrent]). Only a read inside a read is
 * another reader's: it is granted, but waits while a writer is ahead of it. A
 * coroutine that the [block] starts fails likewise if the [block] waits for it as for a child. In another scope, and
 * inside of `withContext(NonCancellable)`, a coroutine is no child: it waits.
 *
 * A `flow` may emit inside a [block]. Its collector then runs while the lock is held.
 *
 * If the lock is lost, [block] is cancelled and [LockLostException] is thrown, unless [block] threw something else:
 * that comes out then, with the other among its suppressed exceptions. Cancelling the caller while it waits leaves nothing behind.
 *
 * Needs `kotlinx-coroutines-core` on the class path.
 *
 * @param wait how long to wait; null waits as long as the server answers, zero tries once
 * @param lease a fixed lease, 100 ms to 24 h; null for the client's, renewed until the end of [block]
 * @param renew whether [lease] is renewed until the end of [block], too; it is 300 ms to 24 h then
 * @param within the held lease of the same lock to re-enter
 * @throws LockTimeoutException if the lock is not granted within [wait]
 * @throws InvalidArgumentException if an argument is out of its range, or an enclosing [block] holds [name]
 * @throws UnavailableException if the server does not answer, or it is skipped ([OnUnavailable.SKIP]); [block] does not run
 * @throws ClosedException if the client was closed
 */
public suspend fun <T> SteadlockClient.withLock(
    name: String,
    wait: Duration? = null,
    lease: Duration? = null,
    renew: Boolean = false,
    within: Lease? = null,
    block: suspend (Lease) -> T,
): T = withLock(lock(name), wait, lease, renew, within, block)

/**
 * Runs [block] while holding [lock], of any kind, and releases it in the end, however [block] ends. As the other
 * [withLock].
 *
 * A lease of a write side re-enters its read side. A mutex, and several locks as one, are not re-entered.
 *
 * @param lock of this client; its own options count where the arguments say nothing
 * @throws InvalidArgumentException also if [lock] is not of this client
 */
public suspend fun <T> SteadlockClient.withLock(
    lock: NamedLock,
    wait: Duration? = null,
    lease: Duration? = null,
    renew: Boolean = false,
    within: Lease? = null,
    block: suspend (Lease) -> T,
): T {
    val own = own(lock, "acquire")
    val options =
        LockOptions.DEFAULT.copy(
            waitMs = wait?.millis(),
            leaseMs = lease?.millis(),
            renew = renew,
            within = within,
        ).over(own.options)
    // An endless wait is none, also where the lock's own options bound it.
    return own.holding(if (wait?.isInfinite() == true) options.copy(waitMs = null) else options, block)
}

/**
 * Runs [block] while holding [permits] permits of [semaphore], and releases them in the end, however [block] ends. As
 * [withLock], but a call inside another one takes new permits.
 *
 * @param semaphore of this client; its own options count where the arguments say nothing
 * @param permits 1 to 1,000, and no more than the limit
 * @param wait how long to wait; null waits as long as the server answers, zero tries once
 * @param lease a fixed lease, 100 ms to 24 h; null for the client's, renewed until the end of [block]
 * @param renew whether [lease] is renewed until the end of [block], too; it is 300 ms to 24 h then
 * @throws LockTimeoutException if the permits are not granted within [wait]
 * @throws InvalidArgumentException if an argument is out of its range, or [semaphore] is not of this client
 * @throws MisconfiguredException if permits are held that agreed on another limit
 * @throws UnavailableException if the server does not answer, or it is skipped ([OnUnavailable.SKIP]); [block] does not run
 * @throws ClosedException if the client was closed
 */
public suspend fun <T> SteadlockClient.withPermits(
    semaphore: NamedSemaphore,
    permits: Int = 1,
    wait: Duration? = null,
    lease: Duration? = null,
    renew: Boolean = false,
    block: suspend (Lease) -> T,
): T = withLock(semaphore.permits(permits), wait, lease, renew, null, block)

private suspend fun <T> ThreadLock.holding(options: LockOptions, block: suspend (Lease) -> T): T {
    if (options.within == null && (CoroutineHold.keepsOut(this) || CurrentLeases.keepsOut(engine, key))) {
        val message =
            "acquire of lock \"${shown(name)}\": an enclosing call holds it, so this would wait for itself; " +
                "pass its lease as within to re-enter, or release it first if it cannot be re-entered, as a mutex, " +
                "several locks as one, and a read lock by a write lock"
        throw invalidArgument(message, name, "acquire")
    }
    val held = engine.acquireSuspending(key, options)
    val result =
        try {
            inScope(held, block)
        } catch (failure: Throwable) {
            held.releaseAfter(failure)
            val reason = held.lostReason
            if (failure is CancellationException && reason != null && currentCoroutineContext().isActive) {
                throw lostException(name, reason, failure)
            }
            throw failure
        }
    held.releaseSuspending()
    held.checkNotLost()
    return result
}

/** Runs [block] in a scope that a loss cancels. A flow may emit in a scope, but not where the context differs otherwise. */
private suspend fun <T> ThreadLock.inScope(held: HeldLease, block: suspend (Lease) -> T): T {
    currentCoroutineContext().ensureActive()
    var hold: CoroutineHold? = null
    try {
        return coroutineScope {
            CoroutineHold(this@inScope, held, coroutineContext.job).also { hold = it }.enter()
            block(held.lease())
        }
    } finally {
        hold?.close()
    }
}

/** What [failure] says goes before what a release may say, or the lease's loss, which ends a block by cancelling it. */
private suspend fun HeldLease.releaseAfter(failure: Throwable) {
    try {
        releaseSuspending()
        if (failure !is CancellationException) checkNotLost()
    } catch (second: SteadlockException) {
        failure.addSuppressed(second)
    }
}

private suspend fun HeldLease.releaseSuspending(): ReleaseOutcome =
    withContext(NonCancellable) {
        val request = startRelease()
        outcomeOf(engine.reply(request))
    }

private suspend fun Engine.acquireSuspending(key: LockKey, options: LockOptions): HeldLease {
    val request = acquire(key, Owner.ofNoThread(), options)
    val reply =
        try {
            reply(request) { cancel(request) }
        } catch (cancelled: CancellationException) {
            // A grant that came first is not handed out by a coroutine that was cancelled.
            if (!cancel(request)) (request.getNow(null) as? Reply.Granted)?.lease?.startRelease()
            throw cancelled
        }
    return reply.expect<Reply.Granted>().lease
}

/** Waits for the reply. Dispatchers, and what runs undispatched, are users' code: it does not run where events are fetched. */
private suspend fun Engine.reply(request: Request, cancelled: () -> Unit = {}): Reply =
    suspendCancellableCoroutine { waiting ->
        waiting.invokeOnCancellation { cancelled() }
        request.thenAccept { reply -> callbacks.runHere { waiting.resumeOrRelease(reply) } }
    }

/** A dispatcher that throws never runs the coroutine, which then has no use for what it was granted. */
private fun CancellableContinuation<Reply>.resumeOrRelease(reply: Reply) {
    try {
        resume(reply)
    } catch (failure: Throwable) {
        (reply as? Reply.Granted)?.lease?.startRelease()
        throw failure
    }
}

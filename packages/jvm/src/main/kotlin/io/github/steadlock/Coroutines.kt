package io.github.steadlock

import io.github.steadlock.internal.CoroutineHold
import io.github.steadlock.internal.CurrentLeases
import io.github.steadlock.internal.Ending
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.HeldLease
import io.github.steadlock.internal.LockRef
import io.github.steadlock.internal.Owner
import io.github.steadlock.internal.Reply
import io.github.steadlock.internal.Request
import io.github.steadlock.internal.ThreadLock
import io.github.steadlock.internal.displayName
import io.github.steadlock.internal.expect
import io.github.steadlock.internal.invalidArgument
import io.github.steadlock.internal.millis
import kotlinx.coroutines.CancellableContinuation
import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.Job
import kotlinx.coroutines.NonCancellable
import kotlinx.coroutines.coroutineScope
import kotlinx.coroutines.currentCoroutineContext
import kotlinx.coroutines.delay
import kotlinx.coroutines.ensureActive
import kotlinx.coroutines.flow.Flow
import kotlinx.coroutines.flow.flow
import kotlinx.coroutines.isActive
import kotlinx.coroutines.job
import kotlinx.coroutines.suspendCancellableCoroutine
import kotlinx.coroutines.withContext
import kotlin.coroutines.resume
import kotlin.time.Duration

/**
 * Runs [block] while holding the lock [name]. Releases the lock at the end, however [block] ends.
 *
 * A coroutine has no identity by which it could re-enter a lock: two coroutines exclude each other, also on one thread.
 * A call inside a [block] that holds the same name must re-enter with [within]. Without [within] the call would wait
 * for itself, so it fails at once. A call also fails at once on a thread that acts as the owner of the lock
 * ([Lease.makeCurrent]), and in a coroutine that is a child of the [block], because the [block] waits for its children.
 * A coroutine in another scope, or one that is started inside `withContext(NonCancellable)`, is no child: it waits.
 *
 * A `flow` can emit inside a [block]. Its collector then runs while the lock is held.
 *
 * If the lock is lost, this function cancels [block] and throws [LockLostException]. If [block] threw another
 * exception, the function throws that one, with [LockLostException] among its suppressed exceptions. If the caller is
 * cancelled while it waits, the attempt is undone in the background.
 *
 * Needs `kotlinx-coroutines-core` on the class path.
 *
 * @param wait how long to wait; null waits as long as the server answers, zero makes a single attempt
 * @param lease the length of a fixed lease, 100 ms to 24 h; null for the client's lease, renewed until the end of
 * [block]
 * @param renew whether [lease] is renewed until the end of [block]; [lease] must be 300 ms to 24 h then
 * @param within a held lease of the same lock, to re-enter it
 * @throws LockTimeoutException if the lock is not granted within [wait]
 * @throws InvalidArgumentException if an argument is out of its range, or an enclosing [block] holds [name]
 * @throws UnavailableException if the server does not answer, or the lock is skipped ([OnUnavailable.SKIP]); [block]
 * does not run then
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
 * Runs [block] while holding [lock], which can be of any kind. Releases the lock at the end, however [block] ends. The
 * rules of the other [withLock] apply.
 *
 * The lease of a write side also re-enters the read side. A mutex and a composite lock cannot be re-entered. A read
 * lock inside a [block] that holds the read side needs no [within]: the inner lock counts as another reader, which
 * waits while a writer is ahead of it.
 *
 * @param lock a lock of this client; its own options apply where the arguments set nothing
 * @throws InvalidArgumentException also if [lock] belongs to another client
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
    // An infinite wait overrides a bound in the lock's own options, so it is set after the options are merged.
    return own.holding(if (wait?.isInfinite() == true) options.copy(waitMs = null) else options, block)
}

/**
 * Runs [block] while holding [permits] permits of [semaphore]. Releases them at the end, however [block] ends. The
 * rules of [withLock] apply, except that a call inside another call acquires further permits.
 *
 * @param semaphore a semaphore of this client; its own options apply where the arguments set nothing
 * @param permits 1 to 1,000, and no more than the limit
 * @param wait how long to wait; null waits as long as the server answers, zero makes a single attempt
 * @param lease the length of a fixed lease, 100 ms to 24 h; null for the client's lease, renewed until the end of
 * [block]
 * @param renew whether [lease] is renewed until the end of [block]; [lease] must be 300 ms to 24 h then
 * @throws LockTimeoutException if the permits are not granted within [wait]
 * @throws InvalidArgumentException if an argument is out of its range, or [semaphore] belongs to another client
 * @throws MisconfiguredException if permits are held that were acquired with another limit
 * @throws UnavailableException if the server does not answer, or the lock is skipped ([OnUnavailable.SKIP]); [block]
 * does not run then
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

/**
 * Runs [block] if no other run of [job] goes on and the job is not done. The run ends well when [block] returns, and as
 * failed when it throws or the caller is cancelled.
 *
 * If the lease is lost, this function cancels [block] and throws [LockLostException].
 *
 * Needs `kotlinx-coroutines-core` on the class path.
 *
 * @return [Ran] with the result of [block], or [Skipped]
 * @throws UnavailableException if the server does not answer; [block] does not run then
 * @throws InvalidArgumentException if the name, the key or a duration of [job] is bad
 * @throws ClosedException if the client was closed
 */
public suspend fun <T> NamedJob.runSuspending(block: suspend (Lease) -> T): RunResult<T> {
    val run =
        when (val started = startedBy(engine.replyOrRelease(request()))) {
            is Skipped -> return started
            is JobRun -> started
        }
    val held = run.lease.held
    return Ran(held.ending({ if (it == null) Ending.SUCCEEDED else Ending.FAILED }) { inScope(held, block) })
}

/**
 * Waits to lead, in order of arrival. If the caller is cancelled while it waits, the campaign is undone in the
 * background.
 *
 * @throws LockTimeoutException if the wait of [NamedLeader.withWait] is over
 */
public suspend fun NamedLeader.campaignSuspending(): Term =
    Term(engine.replyOrRelease(request()).expect<Reply.Granted>().lease.lease())

/**
 * Leads until [body] returns: campaigns, runs [body] in each term, and campaigns again after a term is lost. When a term
 * is lost, [body] is cancelled. Between two campaigns there is a pause of 100 ms that grows to 5 s while terms are lost,
 * or cannot be had, one after another. When [body] returns or throws, or the caller is cancelled, the term is resigned.
 *
 * @return what [body] returned
 */
public suspend fun <T> NamedLeader.leadSuspending(body: suspend (Term) -> T): T {
    var failures = 0
    while (true) {
        var since = System.nanoTime()
        try {
            val term = campaignSuspending()
            since = System.nanoTime()
            val held = term.lease.held
            return held.ending({ Ending.Plain }) { inScope(held, { body(term) }) }
        } catch (failed: SteadlockException) {
            val isPassing = failed.isRetryable || (failed is LockLostException && failed.lockName == displayName(name))
            if (!isPassing) throw failed
            val isLongTerm = failed is LockLostException && System.nanoTime() - since > NamedLeader.LONG_TERM_NANOS
            if (isLongTerm) failures = 0
        }
        delay(engine.campaignPauseMs(failures))
        failures += 1
    }
}

/** Returns the present state of the leader, and then each change. Never misses the last one. */
public fun NamedLeader.changes(): Flow<Leadership> =
    flow {
        var seen: Long? = null
        while (true) {
            val state = engine.replyOrRelease(engine.leadership(ref, seen)).expect<Reply.State>()
            val leadership = state.leadership ?: Leadership(null, emptyList())
            seen = leadership.number
            emit(leadership)
        }
    }

private suspend fun <T> ThreadLock.holding(options: LockOptions, block: suspend (Lease) -> T): T {
    if (options.within == null && (CoroutineHold.keepsOut(this) || CurrentLeases.keepsOut(engine, ref))) {
        val message =
            "acquire of lock \"${displayName(name)}\": an enclosing call holds it, so this would wait for itself; " +
                "pass its lease as within to re-enter, or release it first if it cannot be re-entered, as a mutex, " +
                "several locks as one, and a read lock by a write lock"
        throw invalidArgument(message, name, "acquire")
    }
    val held = engine.acquireSuspending(ref, options)
    return held.ending({ Ending.Plain }) {
        inScope(held, block) { CoroutineHold(this, held, it) }
    }
}

/**
 * Runs [block] and releases the lease. [ending] says how, by the exception of [block] or null. If the loss of the lease
 * has cancelled [block], throws [LockLostException].
 */
private suspend fun <T> HeldLease.ending(ending: (Throwable?) -> Ending, block: suspend () -> T): T {
    val result =
        try {
            block()
        } catch (failure: Throwable) {
            releaseAfter(failure, ending(failure))
            val reason = lostReason
            if (failure is CancellationException && reason != null && currentCoroutineContext().isActive) {
                throw lostException(name, reason, failure)
            }
            throw failure
        }
    releaseSuspending(ending(null))
    checkNotLost()
    return result
}

/**
 * Runs [block] in a scope of its own, which a loss of the lease cancels. The scope is the only change to the context,
 * because a `flow` refuses to emit if its context has other changes.
 */
private suspend fun <T> inScope(
    held: HeldLease,
    block: suspend (Lease) -> T,
    makeHold: (Job) -> CoroutineHold = { CoroutineHold(null, held, it) },
): T {
    currentCoroutineContext().ensureActive()
    var hold: CoroutineHold? = null
    try {
        return coroutineScope {
            makeHold(coroutineContext.job).also { hold = it }.enter()
            block(held.lease())
        }
    } finally {
        hold?.close()
    }
}

/**
 * Releases the lease after [failure] ended the block. [ending] rethrows [failure], so an error of the release or the
 * loss of the lease becomes one of its suppressed exceptions. No loss is added to a [CancellationException], because
 * the loss itself may have cancelled the block; [ending] turns that case into a [LockLostException].
 */
private suspend fun HeldLease.releaseAfter(failure: Throwable, ending: Ending) {
    try {
        releaseSuspending(ending)
        if (failure !is CancellationException) checkNotLost()
    } catch (second: SteadlockException) {
        failure.addSuppressed(second)
    }
}

private suspend fun HeldLease.releaseSuspending(ending: Ending): ReleaseOutcome =
    withContext(NonCancellable) {
        val request = startRelease(ending)
        outcomeOf(engine.reply(request))
    }

private suspend fun Engine.acquireSuspending(ref: LockRef, options: LockOptions): HeldLease =
    replyOrRelease(acquire(ref, Owner.ofNoThread(), options)).expect<Reply.Granted>().lease

/** Waits for the reply. If the caller is cancelled, cancels the request, and releases what it was granted. */
private suspend fun Engine.replyOrRelease(request: Request): Reply =
    try {
        reply(request) { cancel(request) }
    } catch (cancelled: CancellationException) {
        // If the grant came before the cancellation, the cancelled coroutine cannot return its lease, so the lease is
        // released.
        if (!cancel(request)) (request.getNow(null) as? Reply.Granted)?.lease?.startRelease(Ending.UNUSED)
        throw cancelled
    }

/**
 * Waits for the reply. Resumes the coroutine on a callback thread, because this runs code of the program, which must
 * not block the thread that fetches events.
 */
private suspend fun Engine.reply(request: Request, cancelled: () -> Unit = {}): Reply =
    suspendCancellableCoroutine { waiting ->
        waiting.invokeOnCancellation { cancelled() }
        request.thenAccept { reply -> callbacks.runInternal { waiting.resumeOrRelease(reply) } }
    }

/**
 * Resumes the coroutine with [reply]. If its dispatcher throws, the coroutine never runs, so a granted lease is
 * released.
 */
private fun CancellableContinuation<Reply>.resumeOrRelease(reply: Reply) {
    try {
        resume(reply)
    } catch (failure: Throwable) {
        (reply as? Reply.Granted)?.lease?.startRelease(Ending.UNUSED)
        throw failure
    }
}

package io.github.steadlock.internal

import io.github.steadlock.Holder
import io.github.steadlock.LastRun
import io.github.steadlock.Leadership
import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException

/**
 * One operation without a reply yet. Completes with a [Reply]. Only `cancel` completes it exceptionally.
 *
 * A request completes on the thread that fetches events. For this reason dependent functions must be short and must not
 * run the program's code.
 */
internal class Request(
    val tag: Long,
    val operation: String,
    val name: String?,
    val acquisition: Acquisition? = null,
) : CompletableFuture<Reply>() {
    private val observed: ObservedWait?
        get() = acquisition?.observed

    /** The native part's number of this request, by which it is cancelled. */
    @Volatile
    var native: Long = -1

    override fun complete(value: Reply): Boolean {
        when (value) {
            is Reply.NotGranted -> observed?.failed(value.failure)
            is Reply.Failed -> observed?.failed(value.failure)
            else -> Unit
        }
        return super.complete(value)
    }

    override fun cancel(mayInterruptIfRunning: Boolean): Boolean =
        super.cancel(mayInterruptIfRunning).also { if (it) observed?.cancelled() }

    override fun get(): Reply = if (Callbacks.isHere) Callbacks.whileWaiting { super.get() } else super.get()

    override fun get(timeout: Long, unit: TimeUnit): Reply =
        if (Callbacks.isHere) Callbacks.whileWaiting { super.get(timeout, unit) } else super.get(timeout, unit)

    /**
     * Waits for the reply. An interrupt does not end the wait: the thread's interrupt status is set again afterwards.
     */
    fun await(): Reply = keepingInterrupts { get() }

    /**
     * Waits for the reply, at most [limitMs]; returns null if none came. An interrupt does not end the wait: the
     * thread's interrupt status is set again afterwards.
     */
    fun await(limitMs: Long): Reply? {
        val deadline = System.nanoTime() + TimeUnit.MILLISECONDS.toNanos(limitMs)
        return try {
            keepingInterrupts { get(deadline - System.nanoTime(), TimeUnit.NANOSECONDS) }
        } catch (_: TimeoutException) {
            null
        }
    }

    private inline fun <T> keepingInterrupts(wait: () -> T): T {
        var interrupted = false
        try {
            while (true) {
                try {
                    return wait()
                } catch (_: InterruptedException) {
                    interrupted = true
                }
            }
        } finally {
            if (interrupted) {
                Thread.currentThread().interrupt()
            }
        }
    }
}

/**
 * The parameters of an acquisition.
 *
 * @property context the number of the hold's owner; differs from that of [owner] if the acquisition re-enters by a
 * lease
 * @property isRenewed whether the lease is renewed until it is released
 */
internal class Acquisition(
    val lock: LockRef,
    val owner: Owner,
    val context: Long,
    val isRenewed: Boolean,
    val observed: ObservedWait?,
)

/** The result of an operation. */
internal sealed interface Reply {
    data object Connected : Reply

    class Granted(val lease: HeldLease) : Reply

    class NotGranted(val failure: Failure) : Reply

    class Failed(val failure: Failure) : Reply

    /** [lostReason] is the reason for the loss if the lease was expired or stolen. */
    class Released(val outcome: ReleaseOutcome, val lostReason: LostReason?) : Reply

    data object Extended : Reply

    /** [permits] is set for a semaphore if any permits are held, [lastRun] for a job, and [leadership] for a leader. */
    class State(
        val holder: Holder?,
        val permits: Permits?,
        val lastRun: LastRun? = null,
        val leadership: Leadership? = null,
    ) : Reply

    class Forced(val wasHeld: Boolean) : Reply

    class Held(val levels: Int, val lease: HeldLease?) : Reply

    data object Closed : Reply

    /** Returns this reply, or throws its failure. */
    fun orThrow(): Reply =
        when (this) {
            is NotGranted -> throw failure.toException()
            is Failed -> throw failure.toException()
            else -> this
        }
}

/** Returns this reply as [T], the type of its operation, or throws its failure with the caller's stack trace. */
internal inline fun <reified T : Reply> Reply.expect(): T {
    val reply = orThrow()
    return reply as? T ?: error("the native part answered ${reply::class.simpleName}, not ${T::class.simpleName}")
}

/** The permits of a semaphore on the server. */
internal class Permits(val held: Int, val limit: Int)

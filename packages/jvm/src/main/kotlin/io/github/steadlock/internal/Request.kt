package io.github.steadlock.internal

import io.github.steadlock.Holder
import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import java.util.concurrent.CompletableFuture
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException

/**
 * One operation on its way. Completes with a [Reply], never exceptionally except by `cancel`.
 *
 * It completes on the thread that fetches events, so whatever depends on it must be short and must not run a
 * user's code.
 */
internal class Request(
    val tag: Long,
    val operation: String,
    val name: String?,
    val acquisition: Acquisition? = null,
) : CompletableFuture<Reply>() {
    private val observed: ObservedWait?
        get() = acquisition?.observed

    /** The native part's number, for cancelling. */
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

    /** Waits for the reply; an interrupt is kept for later. */
    fun await(): Reply = keepingInterrupts { get() }

    /** Waits for the reply, [limitMs] at the most, or gives null; an interrupt is kept for later. */
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
 * The wishes of an acquisition.
 *
 * @property context the owner of the hold, which is another one than [owner] if the acquisition re-enters by a lease
 * @property isRenewed whether the lease is renewed until it is released
 */
internal class Acquisition(
    val lock: LockKey,
    val owner: Owner,
    val context: Long,
    val isRenewed: Boolean,
    val observed: ObservedWait?,
)

/** How an operation ended. */
internal sealed interface Reply {
    data object Connected : Reply

    class Granted(val lease: HeldLease) : Reply

    class NotGranted(val failure: Failure) : Reply

    class Failed(val failure: Failure) : Reply

    /** [lostReason] is why the lease was lost, if it was expired or stolen. */
    class Released(val outcome: ReleaseOutcome, val lostReason: LostReason?) : Reply

    data object Extended : Reply

    /** [permits] is a semaphore's, if any are held. */
    class State(val holder: Holder?, val permits: Permits?) : Reply

    class Forced(val wasHeld: Boolean) : Reply

    class Held(val levels: Int, val lease: HeldLease?) : Reply

    data object Closed : Reply

    /** This reply, or its failure thrown. */
    fun orThrow(): Reply =
        when (this) {
            is NotGranted -> throw failure.toException()
            is Failed -> throw failure.toException()
            else -> this
        }
}

/** This reply as the [T] that its operation completes with, or its failure thrown with the caller's stack. */
internal inline fun <reified T : Reply> Reply.expect(): T {
    val reply = orThrow()
    return reply as? T ?: error("the native part answered ${reply::class.simpleName}, not ${T::class.simpleName}")
}

/** A semaphore's permits on the server. */
internal class Permits(val held: Int, val limit: Int)

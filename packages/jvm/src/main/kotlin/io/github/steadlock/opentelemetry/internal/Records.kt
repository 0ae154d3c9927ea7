package io.github.steadlock.opentelemetry.internal

import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import io.github.steadlock.internal.Failure
import io.github.steadlock.internal.LockRef
import io.github.steadlock.internal.ObservedHold
import io.github.steadlock.internal.ObservedWait
import io.opentelemetry.context.Context
import java.time.Instant
import java.util.concurrent.atomic.AtomicBoolean

/**
 * An acquisition, from its call until it ends. The caller's thread makes this object; [submit] passes the finished
 * record to OpenTelemetry on another thread.
 */
internal class WaitRecord(
    private val lock: LockRef,
    private val recorder: Recorder,
    private val submit: (Runnable) -> Unit,
) : ObservedWait {
    private val parent = currentContext()
    private val from = Moment.now()
    private val isEnded = AtomicBoolean()

    override fun granted(token: Long?, isDegraded: Boolean, remainingNanos: () -> Long): ObservedHold? {
        val to = end(if (isDegraded) "degraded" else "granted") ?: return null
        return HoldRecord(lock, recorder, submit, parent, to, token, isDegraded)
    }

    override fun failed(failure: Failure) {
        val outcome = outcomeOf(failure)
        // Stores the lock's group, its label in the metrics, now: a client that is closed later cannot name it any more.
        if (outcome == "closed") recorder.group(lock, outcome)
        end(outcome, failure)
    }

    override fun cancelled() {
        end("cancelled")
    }

    /** Ends the wait. Returns the moment of the end, or null if it had ended before. */
    private fun end(outcome: String, failure: Failure? = null): Moment? {
        if (!isEnded.compareAndSet(false, true)) return null
        val to = from.later()
        submit { recorder.wait(lock, parent, from, to, outcome, failure) }
        return to
    }
}

/** A lease from its grant on. */
internal class HoldRecord(
    private val lock: LockRef,
    private val recorder: Recorder,
    private val submit: (Runnable) -> Unit,
    private val parent: Context,
    private val from: Moment,
    private val token: Long?,
    private val isDegraded: Boolean,
) : ObservedHold {
    private val isEnded = AtomicBoolean()

    override fun released(outcome: ReleaseOutcome, lost: LostReason?) = end(outcome.name.lowercase(), lost)

    override fun lost(reason: LostReason) = end("lost", reason)

    private fun end(outcome: String, lost: LostReason?) {
        if (!isEnded.compareAndSet(false, true)) return
        val to = from.later()
        submit { recorder.hold(lock, parent, from, to, token, isDegraded, outcome, lost) }
    }
}

/** A moment by the wall clock and by the monotonic clock. */
internal class Moment private constructor(val wall: Instant, private val nanos: Long) {
    /** Returns the present moment, with the wall clock advanced by the time that passed on the monotonic clock. */
    fun later(): Moment {
        val now = System.nanoTime()
        return Moment(wall.plusNanos(now - nanos), now)
    }

    fun secondsSince(other: Moment): Double = (nanos - other.nanos) / NANOS_PER_SECOND

    companion object {
        fun now() = Moment(Instant.now(), System.nanoTime())

        private const val NANOS_PER_SECOND = 1e9
    }
}

/** Returns the current context, or the root context if the program's context storage fails. */
private fun currentContext(): Context = runCatching(Context::current).getOrElse { Context.root() }

/** Returns the outcome under which the core counts an acquisition that failed in this way. */
private fun outcomeOf(failure: Failure): String =
    when {
        failure.skip != null && !failure.isSkipped -> failure.skip.reason.name.lowercase()
        failure.isSkipped -> "skipped"
        failure.kind == "LockTimeout" -> "timed_out"
        failure.kind == "Unavailable" -> "unavailable"
        failure.kind == "Misconfigured" -> "misconfigured"
        failure.kind == "LockLost" -> "lost"
        failure.kind == "Closed" -> "closed"
        else -> "refused"
    }

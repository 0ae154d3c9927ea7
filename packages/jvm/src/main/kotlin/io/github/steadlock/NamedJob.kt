package io.github.steadlock

import io.github.steadlock.internal.AwaitedFuture
import io.github.steadlock.internal.Ending
import io.github.steadlock.internal.Engine
import io.github.steadlock.internal.Failure
import io.github.steadlock.internal.Kind
import io.github.steadlock.internal.Reply
import io.github.steadlock.internal.Request
import io.github.steadlock.internal.RunEnd
import io.github.steadlock.internal.RunTerms
import io.github.steadlock.internal.displayName
import io.github.steadlock.internal.expect
import io.github.steadlock.internal.millis
import java.io.Serializable
import java.time.Duration
import java.time.Instant
import java.util.concurrent.CompletionStage
import java.util.function.Function

/**
 * A job, of which at most one run goes on at a time in the whole fleet. Immutable: each `with` method returns a changed
 * copy.
 *
 * A request never waits: it is granted a run, or it is skipped because another run goes on or the job is done. A run is
 * a renewed lease, so nobody has to guess how long the job takes. If its process dies, the job is free when the lease
 * ends (30 s by default) and may run again: no lock can promise that a job runs *exactly* once. Send [Lease.token]
 * along with what the job writes, or give each run a [withKey], and a repetition is harmless.
 *
 * ```java
 * var report = client.once("report").withAtLeast(Duration.ofMinutes(10));
 * if (report.run(lease -> write(lease.getToken())) instanceof Skipped skipped) {
 *     log.debug(skipped.toString());
 * }
 * ```
 *
 * All methods that request a run throw [InvalidArgumentException] for a bad name, key or duration (nothing is sent
 * then), [UnavailableException] if the server does not answer in time, [MisconfiguredException] if the key of the job
 * has another type, and [ClosedException] on a closed client. While a circuit breaker is open, they throw
 * [UnavailableException] at once; with [OnUnavailable.SKIP] the run is skipped for [SkipReason.UNAVAILABLE].
 */
public class NamedJob internal constructor(
    private val client: SteadlockClient,
    /** The name under which other programs know this job. */
    public val name: String,
    private val terms: RunTerms,
    private val options: LockOptions,
) : JobScope {
    internal val ref = Kind.ONCE.ref(name)

    /**
     * Sets for how long after its start a run that ended well keeps others out, at most 24 h. Give a little more than
     * the clocks of the instances can differ, and less than the time between two runs. The server's clock counts.
     * Default: no time.
     */
    public fun withAtLeast(atLeast: Duration): NamedJob = with(terms.copy(atLeastMs = atLeast.millis()))

    /**
     * Sets the key of the run, such as the planned time or the number of an order: 1 to 512 bytes without NUL. A run of
     * this key that ended well is not repeated while the server remembers it. At most one run of the job goes on at a
     * time, whatever its key. Default: no key.
     */
    public fun withKey(key: String): NamedJob = with(terms.copy(key = key))

    /** Sets how long the server remembers that the key is done, 1 ms to 30 days. Default: 24 h. */
    public fun withKeep(keep: Duration): NamedJob = with(terms.copy(keepMs = keep.millis()))

    /** Sets what a failed run means for later requests. Default: [OnFailure.RETRY]. */
    public fun withOnFailure(onFailure: OnFailure): NamedJob = with(terms.copy(onFailure = onFailure))

    /**
     * Sets the length of the lease, which is renewed while the job runs: 300 ms to 24 h. After a crash the job is free
     * when the lease ends. Default: the client's lease.
     */
    public fun withLease(lease: Duration): NamedJob = with(options.withLease(lease).renewed())

    /**
     * Sets a fixed lease of 100 ms to 24 h, which nothing renews: a job that takes longer may be run by another process
     * at the same time. For programs that must bound each run, as ShedLock's `lockAtMostFor` does.
     */
    public fun withFixedLease(lease: Duration): NamedJob = with(options.withFixedLease(lease))

    /** Sets the longest time that a run may last. The lease is lost when that time has passed. Default: no bound. */
    public fun withMaxHold(maxHold: Duration): NamedJob = with(options.withMaxHold(maxHold))

    /** Requests runs without a fencing token. */
    public fun withoutFencing(): NamedJob = with(options.withoutFencing())

    /**
     * Sets how a request ends while the server is unavailable; see [LockOptions.onUnavailable]. A job never runs
     * without the server, so [OnUnavailable.LOCAL] fails like [OnUnavailable.FAIL].
     */
    public fun onUnavailable(onUnavailable: OnUnavailable): NamedJob = with(options.onUnavailable(onUnavailable))

    override fun <T, E : Exception> run(action: LockedAction<T, E>): RunResult<T> {
        val run =
            when (val started = start()) {
                is Skipped -> return started
                is JobRun -> started
            }
        val result =
            try {
                action.run(run.lease)
            } catch (failure: Throwable) {
                run.failAfter(failure)
                throw failure
            }
        run.succeed()
        run.lease.held.checkNotLost()
        return Ran(result)
    }

    /** Runs [action] as the other [run] does. */
    @JvmSynthetic
    public fun <T> run(action: (Lease) -> T): RunResult<T> = run(LockedAction<T, RuntimeException> { action(it) })

    /**
     * Runs [action] if no other run of the job goes on and the job is not done. The run ends well when the stage that
     * [action] returns completes, and as failed when that stage completes exceptionally or [action] throws; the
     * returned stage then completes with the same exception. [action] runs on a thread of the client, or on the
     * executor of [SteadlockBuilder.callbackExecutor].
     */
    public fun <T> runAsync(action: Function<Lease, out CompletionStage<T>>): CompletionStage<RunResult<T>> {
        val request = request()
        val result = RequestedFuture<RunResult<T>>(engine, request)
        request.thenAccept { reply ->
            engine.callbacks.run {
                try {
                    when (val started = startedBy(reply)) {
                        is Skipped -> result.complete(started)
                        is JobRun -> started.runStage(action, result)
                    }
                } catch (failed: RuntimeException) {
                    result.completeExceptionally(failed)
                }
            }
        }
        return result
    }

    /**
     * Begins a run that the caller ends, on any thread. Prefer [run], which ends it in every case. Makes one call to
     * the server. An interrupt does not end the call: the thread's interrupt status is set again afterwards.
     */
    public fun start(): Started = startedBy(client.engine.acquireRun(ref, options, terms).await())

    /**
     * Begins a run without waiting for the server. To give up the request, cancel the stage's `toCompletableFuture()`; a
     * run that is granted meanwhile is released, as if it had never begun.
     */
    public fun startAsync(): CompletionStage<Started> {
        val request = request()
        val result = RequestedFuture<Started>(engine, request)
        request.thenAccept { reply ->
            engine.callbacks.run {
                try {
                    val started = startedBy(reply)
                    if (!result.complete(started) && started is JobRun) started.lease.held.startRelease(Ending.UNUSED)
                } catch (failed: RuntimeException) {
                    result.completeExceptionally(failed)
                }
            }
        }
        return result
    }

    /**
     * Asks the server for the last runs of the job; null if none began in the last 30 days.
     *
     * @throws InvalidArgumentException if the name is bad, or this is a client of [Steadlock.redlock]
     * @throws UnavailableException if the server does not answer within the command timeout
     * @throws ClosedException if the client was closed
     */
    public fun lastRun(): LastRun? = client.engine.lastRun(ref).await().expect<Reply.State>().lastRun

    override fun toString(): String = "NamedJob(name=${displayName(name)})"

    private fun with(terms: RunTerms) = NamedJob(client, name, terms, options)

    private fun with(options: LockOptions) = NamedJob(client, name, terms, options)

    internal val engine get() = client.engine

    internal fun request() = client.engine.acquireRun(ref, options, terms)
}

/** Returns the run or the skip of a request with this reply, or throws its failure. */
internal fun startedBy(reply: Reply): Started =
    if (reply is Reply.NotGranted) {
        Skipped(reply.failure)
    } else {
        val held = reply.expect<Reply.Granted>().lease
        // If the program drops the run without an end, a warning says so.
        JobRun(held.lease()).also { held.giveToStage(isTaken = true) }
    }

/** A future of a request, which is undone if the program completes or cancels the future before the reply. */
private class RequestedFuture<T>(private val engine: Engine, private val request: Request) : AwaitedFuture<T>() {
    override fun cancel(mayInterruptIfRunning: Boolean): Boolean =
        super.cancel(mayInterruptIfRunning).also { if (it) engine.cancel(request) }
}

/** Ends a run after [failure] ended its action. An error of the release becomes one of its suppressed exceptions. */
private fun JobRun.failAfter(failure: Throwable) {
    try {
        fail()
        lease.held.checkNotLost()
    } catch (second: SteadlockException) {
        failure.addSuppressed(second)
    }
}

private fun <T> JobRun.runStage(
    action: Function<Lease, out CompletionStage<T>>,
    result: AwaitedFuture<RunResult<T>>,
) {
    val stage =
        try {
            requireNotNull(action.apply(lease)) { "the action of job \"${lease.name}\" returned no stage" }
        } catch (failure: Throwable) {
            failAfter(failure)
            result.completeExceptionally(failure)
            return
        }
    stage.whenComplete { value, failure ->
        val ending = if (failure == null) Ending.SUCCEEDED else Ending.FAILED
        lease.held.startRelease(ending).thenAccept { reply ->
            lease.held.engine.callbacks.run {
                try {
                    lease.held.outcomeOf(reply)
                    lease.held.checkNotLost()
                    if (failure == null) result.complete(Ran(value)) else result.completeExceptionally(failure)
                } catch (second: SteadlockException) {
                    result.completeExceptionally(failure?.apply { addSuppressed(second) } ?: second)
                }
            }
        }
    }
}

/** The result of [NamedJob.start]: a [JobRun], or [Skipped]. */
public sealed interface Started

/**
 * A run of a job, which the caller ends by [succeed] or [fail]. Safe for use by several threads.
 *
 * @property lease the lease of the run
 */
public class JobRun internal constructor(
    public val lease: Lease,
) : Started, AutoCloseable {
    /** Ends the run well: the job did its work. Returns and throws as [Lease.release]. */
    public fun succeed(): ReleaseOutcome = lease.held.release(Ending.SUCCEEDED)

    /** Ends the run well. [atLeast] replaces the time of [NamedJob.withAtLeast]; it counts from the start of the run. */
    public fun succeed(atLeast: Duration): ReleaseOutcome =
        lease.held.release(Ending.Run(RunEnd.SUCCEEDED, atLeast.millis()))

    /** Ends the run as failed. Returns and throws as [Lease.release]. */
    public fun fail(): ReleaseOutcome = lease.held.release(Ending.FAILED)

    /** Starts [succeed] without waiting for its outcome. */
    public fun succeedAsync(): CompletionStage<ReleaseOutcome> = lease.held.releaseAsync(Ending.SUCCEEDED)

    /** Starts [fail] without waiting for its outcome. */
    public fun failAsync(): CompletionStage<ReleaseOutcome> = lease.held.releaseAsync(Ending.FAILED)

    /** Ends the run as failed, unless it was ended before. */
    override fun close() {
        fail()
    }

    override fun toString(): String = "JobRun($lease)"
}

/** The result of a request to run a job: [Ran] or [Skipped]. */
public sealed interface RunResult<out T> {
    /** Whether the job ran. */
    public val isRan: Boolean
        get() = this is Ran

    /** Returns what the job returned, or null if it did not run. */
    public fun getOrNull(): T? = (this as? Ran)?.value
}

/**
 * The job ran.
 *
 * @property value what it returned
 */
public data class Ran<out T>(val value: T) : RunResult<T>

/** The job did not run. The text of [toString] is a sentence for logs. */
public class Skipped internal constructor(private val failure: Failure) : RunResult<Nothing>, Started {
    /** The reason. */
    public val reason: SkipReason
        get() = failure.skip?.reason ?: SkipReason.UNAVAILABLE

    /**
     * Which program runs or ran the job, and how long this keeps others out if nothing renews it; null if the server
     * was not asked.
     */
    public val by: Holder?
        get() = failure.holder

    /** When the other run began, by the server's clock; null if the server was not asked. */
    public val since: Instant?
        get() = failure.skip?.since

    /** How long the other run took; null while it goes on. */
    public val took: Duration?
        get() = failure.skip?.took

    /** A sentence for logs: which run keeps this one out, and for how long. */
    public val message: String
        get() = failure.message

    /** Returns the same as an exception. */
    public fun toException(): SkippedException = SkippedException(failure)

    override fun toString(): String = failure.message
}

/** The effect of a failed run on later requests. */
public enum class OnFailure {
    /** The job may run again at once, and its key too. */
    RETRY,

    /** The run counts as done, like one that succeeded. */
    KEEP,
}

/**
 * The last runs of a job, as the server has them for 30 days. Times are those of the server's clock.
 *
 * @property state what became of the run that began last
 * @property started when the run that began last began; null if that is not known any more
 * @property client the program of that run, or null if unknown
 * @property ended the run that ended last, or null if none has
 * @property succeeded when a run last ended well, or null if none has
 */
public data class LastRun(
    val state: RunState,
    val started: Instant?,
    val client: ClientInfo?,
    val ended: EndedRun?,
    val succeeded: Instant?,
) : Serializable {
    private companion object {
        private const val serialVersionUID = 1L
    }
}

/**
 * A run that has ended.
 *
 * @property at when it ended, by the server's clock
 * @property took how long it took
 * @property outcome how it ended
 * @property client the program of the run, or null if unknown
 */
public data class EndedRun(
    val at: Instant,
    val took: Duration,
    val outcome: RunOutcome,
    val client: ClientInfo?,
) : Serializable {
    private companion object {
        private const val serialVersionUID = 1L
    }
}

/** The state of the run that began last. */
public enum class RunState {
    /** The run goes on. */
    RUNNING,

    /** The run has ended. */
    ENDED,

    /** The lease of the run is over, and nobody has reported its end: its process crashed or was cut off. */
    CRASHED,
}

/** How a run ended. */
public enum class RunOutcome {
    /** The job did its work. */
    SUCCEEDED,

    /** The job failed, or its caller stopped it. */
    FAILED,

    /** The lease ended before the run did. */
    LOST,
}

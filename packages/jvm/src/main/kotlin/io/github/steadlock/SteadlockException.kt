package io.github.steadlock

import io.github.steadlock.internal.Failure
import io.github.steadlock.internal.NativeApiLoader
import io.github.steadlock.internal.displayName
import java.io.Serializable
import java.time.Duration
import java.time.Instant

/**
 * The root of all exceptions of Steadlock, unchecked. The message names the lock, the operation, the cause and a
 * remedy, and never contains a password.
 *
 * @property lockName the name of the lock, or null if no lock is involved; the userinfo of a URL in the name is left
 * out
 * @property operation the operation that failed: `connect`, `acquire`, `release`, `extend`, `inspect` or `set_limit`
 * @property node the address of the server that did not answer or is misconfigured, without user and password; for
 * several primaries, all addresses; null if the error is not about a server
 * @property isRetryable whether the same call may succeed later without any change
 * @property isSkipped whether the lock was skipped ([OnUnavailable.SKIP]) because its server is unavailable; true only
 * for an [UnavailableException], or of a job for a [SkippedException]
 * @property causeText the message of the server or the network, or the reason why no reply came, without advice; for
 * [LockLostException], how the lease was lost; null for errors without such a cause, such as a bad argument. The name
 * is not `cause`, because [Throwable] has a property of that name
 */
public sealed class SteadlockException(
    message: String,
    lockName: String?,
    public val operation: String,
    public val node: String?,
    public val isRetryable: Boolean,
    public val isSkipped: Boolean,
    public val causeText: String?,
    cause: Throwable? = null,
) : RuntimeException(message, cause) {
    public val lockName: String? = lockName?.let(::displayName)
}

/** The client was closed. */
public class ClosedException internal constructor(failure: Failure) :
    SteadlockException(
        failure.message,
        failure.lock,
        failure.operation,
        failure.node,
        failure.isRetryable,
        failure.isSkipped,
        failure.cause,
    )

/**
 * The object was made before the process was forked. A JVM does not fork, so this exception exists only for
 * completeness.
 */
public class ForkedException internal constructor(failure: Failure) :
    SteadlockException(
        failure.message,
        failure.lock,
        failure.operation,
        failure.node,
        failure.isRetryable,
        failure.isSkipped,
        failure.cause,
    )

/** An argument is bad, the lock does not support the call, or the caller would wait for itself. */
public class InvalidArgumentException internal constructor(failure: Failure) :
    SteadlockException(
        failure.message,
        failure.lock,
        failure.operation,
        failure.node,
        failure.isRetryable,
        failure.isSkipped,
        failure.cause,
    )

/**
 * The lease ended before its holder released it.
 *
 * @property reason the reason for the loss, or null if unknown; [LostReason.EXPIRED] or [LostReason.STOLEN] if a
 * release was the first to notice the loss
 */
public class LockLostException internal constructor(
    failure: Failure,
    cause: Throwable? = null,
) : SteadlockException(
        failure.message,
        failure.lock,
        failure.operation,
        failure.node,
        failure.isRetryable,
        failure.isSkipped,
        failure.cause,
        cause,
    ) {
    public val reason: LostReason? = failure.reason
}

/** Returns the exception for a lease of lock [name] that was lost for [reason]. */
internal fun lostException(name: String, reason: LostReason, cause: Throwable? = null): LockLostException =
    LockLostException(NativeApiLoader.instance.lostError(name, reason), cause)

/**
 * The wait timed out, because the lock was not free.
 *
 * @property holder the holder according to the last reply of the server, or null if unknown
 */
public class LockTimeoutException internal constructor(
    failure: Failure,
) : SteadlockException(
        failure.message,
        failure.lock,
        failure.operation,
        failure.node,
        failure.isRetryable,
        failure.isSkipped,
        failure.cause,
    ) {
    public val holder: Holder? = failure.holder
}

/**
 * The server is configured in a way that does not work for locks, the key of the lock has another type, or permits of
 * the semaphore are held with another limit.
 */
public class MisconfiguredException internal constructor(failure: Failure) :
    SteadlockException(
        failure.message,
        failure.lock,
        failure.operation,
        failure.node,
        failure.isRetryable,
        failure.isSkipped,
        failure.cause,
    )

/** The caller tried to release or extend a lock that it does not hold. */
public class NotOwnerException internal constructor(failure: Failure) :
    SteadlockException(
        failure.message,
        failure.lock,
        failure.operation,
        failure.node,
        failure.isRetryable,
        failure.isSkipped,
        failure.cause,
    )

/**
 * A run of a job was skipped: another run goes on, the job is done, or the server is unavailable and the program wanted
 * to skip then.
 *
 * @property reason the reason
 * @property holder which program runs or ran the job, or null if the server was not asked
 * @property since when the other run began, by the server's clock, or null if the server was not asked
 * @property took how long the other run took, or null while it goes on
 */
public class SkippedException internal constructor(
    failure: Failure,
) : SteadlockException(
        failure.message,
        failure.lock,
        failure.operation,
        failure.node,
        failure.isRetryable,
        failure.isSkipped,
        failure.cause,
    ) {
    public val reason: SkipReason = failure.skip?.reason ?: SkipReason.UNAVAILABLE
    public val holder: Holder? = failure.holder
    public val since: Instant? = failure.skip?.since
    public val took: Duration? = failure.skip?.took
}

/** The reason why a job was skipped. */
public enum class SkipReason {
    /** Another run of the job goes on. */
    RUNNING,

    /** The job, or this key of it, is done. */
    DONE,

    /** The server is unavailable, and the program wanted to skip then ([OnUnavailable.SKIP]). */
    UNAVAILABLE,
}

/**
 * The server did not answer in time, could not be reached, or cannot serve at present; or its circuit breaker is open,
 * and no call was sent.
 */
public class UnavailableException internal constructor(failure: Failure) :
    SteadlockException(
        failure.message,
        failure.lock,
        failure.operation,
        failure.node,
        failure.isRetryable,
        failure.isSkipped,
        failure.cause,
    )

/**
 * The holder of a lock.
 *
 * @property owner the holder's owner id in the record on the server
 * @property remaining the time until the record ends, or null if the record has no TTL
 * @property client the program that holds the lock, or null if unknown, for example if it uses another library
 */
public data class Holder(val owner: String, val remaining: Duration?, val client: ClientInfo? = null) : Serializable {
    private companion object {
        private const val serialVersionUID = 1L
    }
}

/**
 * The program and the machine of a client, as the client itself published them. For people only, because the
 * information is not verified.
 *
 * @property host the name of the machine
 * @property pid the process id on that machine
 * @property program the name of the program, without folder and arguments
 * @property language the language of the program and its version, such as `java 17.0.15`
 * @property version the version of Steadlock
 * @property since the time when the client was made, by that machine's clock
 * @property label the label of [SteadlockBuilder.clientLabel], or empty
 */
public data class ClientInfo(
    val host: String,
    val pid: Long,
    val program: String,
    val language: String,
    val version: String,
    val since: Instant,
    val label: String,
) : Serializable {
    private companion object {
        private const val serialVersionUID = 1L
    }
}

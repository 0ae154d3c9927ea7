package io.github.steadlock

import io.github.steadlock.internal.Failure
import io.github.steadlock.internal.LoadedFace
import io.github.steadlock.internal.shown
import java.io.Serializable
import java.time.Duration
import java.time.Instant

/**
 * The root of all that Steadlock throws. Unchecked. The message names the lock, the operation, the cause and what to
 * do, and never holds a password.
 *
 * @property lockName the lock, without the userinfo of a URL, or null if none was involved
 * @property operation what was being done: `connect`, `acquire`, `release`, `extend`, `inspect` or `set_limit`
 * @property node the server that did not answer, or that is set up so that locks cannot work: its address without user
 * and password, of several primaries all; null if no server has to do with it
 * @property isRetryable whether the same call may go well later though nobody changes anything
 * @property isSkipped whether the lock was skipped ([OnUnavailable.SKIP]): its server is unavailable, and what the lock
 * guards was not to be run then. Only an [UnavailableException] can be
 * @property causeText what the server or the network said, or why nothing came, without advice; of [LockLostException],
 * how the lease was lost; null if nothing of that kind is behind it, as with a bad argument. It is a text, and so it is
 * not called `cause`: that is every [Throwable]'s name for another one
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
    public val lockName: String? = lockName?.let(::shown)
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

/** The object was made before the process was forked. A JVM does not fork, so this is here for completeness. */
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

/** An argument is out of its range. Nothing was sent. */
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
 * The lease ended before its holder was done with it.
 *
 * @property reason why, or null if that is not known; by a release that was the first to notice, [LostReason.EXPIRED]
 * or [LostReason.STOLEN]
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

/** A lease of [name] that ended before its release, for [reason]. */
internal fun lostException(name: String, reason: LostReason, cause: Throwable? = null): LockLostException =
    LockLostException(LoadedFace.instance.lostError(name, reason), cause)

/**
 * Timed out; another owner holds the lock.
 *
 * @property holder who held it at the server's last answer, or null if that is not known
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

/** The server is set up in a way the lock cannot work with, or a key of another type is in the lock's place. */
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

/** The caller does not hold the lock that it wants to release or extend. */
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
 * The server did not answer in time, could not be reached, or cannot serve for now; or its circuit breaker is open, and
 * it was not asked.
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
 * Who holds a lock.
 *
 * @property owner the holder's owner id as the server has it
 * @property remaining what was left of its record, or null if the record has no end
 * @property client which program it is, or null if that is not known, as of other libraries' holders
 */
public data class Holder(val owner: String, val remaining: Duration?, val client: ClientInfo? = null) : Serializable {
    private companion object {
        private const val serialVersionUID = 1L
    }
}

/**
 * Which program on which machine a client is, as it says itself: for people, since nothing vouches for it.
 *
 * @property host the machine's name
 * @property pid the process's id there
 * @property program the program's name, without its folder and its arguments
 * @property language the language that it uses Steadlock from, and its version: `java 17.0.15`
 * @property version Steadlock's version
 * @property since when the client was made, by that machine's clock
 * @property label what else it says, by [SteadlockBuilder.clientLabel]; empty for nothing
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

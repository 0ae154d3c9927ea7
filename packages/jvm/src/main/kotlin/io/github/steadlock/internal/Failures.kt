package io.github.steadlock.internal

import io.github.steadlock.ClosedException
import io.github.steadlock.ForkedException
import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.LockLostException
import io.github.steadlock.LockTimeoutException
import io.github.steadlock.MisconfiguredException
import io.github.steadlock.NotOwnerException
import io.github.steadlock.SkippedException
import io.github.steadlock.SteadlockException
import io.github.steadlock.UnavailableException

/** Returns this error as an exception. */
internal fun Failure.toException(): SteadlockException =
    when (kind) {
        "Closed" -> ClosedException(this)
        "Forked" -> ForkedException(this)
        "InvalidArgument" -> InvalidArgumentException(this)
        "LockLost" -> LockLostException(this)
        "LockTimeout" -> LockTimeoutException(this)
        "Misconfigured" -> MisconfiguredException(this)
        "NotOwner" -> NotOwnerException(this)
        "Skipped" -> SkippedException(this)
        "Unavailable" -> UnavailableException(this)
        else -> error("the native part failed with the unknown kind $kind: $message")
    }

/** Returns the error of a call on a client that was closed before or during the call. */
internal fun clientClosed(lock: String?, operation: String): Failure {
    val subject = if (lock == null) operation else "$operation of lock \"${displayName(lock)}\""
    return Failure("Closed", operation, "$subject: the client was closed; connect again", lock)
}

/** Returns the error of a call during which the event thread ended by [cause]; null if the native part ended it. */
internal fun clientFailed(lock: String?, operation: String, cause: Throwable?): Failure {
    val subject = if (lock == null) operation else "$operation of lock \"${displayName(lock)}\""
    val why = "the client failed (${cause ?: "a defect in the native part"})"
    return Failure("Unavailable", operation, "$subject: $why; connect again", lock, cause = why)
}

/** Returns the error of a client for whose events the system refused a thread. */
internal fun noThread(refused: OutOfMemoryError): Failure {
    val why = "no thread can fetch the client's events (${refused.message})"
    return Failure(
        "Unavailable",
        "connect",
        "connect: $why; allow this process more threads, or end some",
        lock = null,
        isRetryable = true,
        cause = why,
    )
}

/** Returns the exception for a bad argument that is found without the core. */
internal fun invalidArgument(message: String, lock: String?, operation: String): InvalidArgumentException =
    InvalidArgumentException(Failure("InvalidArgument", operation, message, lock))

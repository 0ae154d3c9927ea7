package io.github.steadlock.internal

import io.github.steadlock.ClosedException
import io.github.steadlock.ForkedException
import io.github.steadlock.InvalidArgumentException
import io.github.steadlock.LockLostException
import io.github.steadlock.LockTimeoutException
import io.github.steadlock.MisconfiguredException
import io.github.steadlock.NotOwnerException
import io.github.steadlock.SteadlockException
import io.github.steadlock.UnavailableException

/** The exception that this is. */
internal fun Failure.toException(): SteadlockException =
    when (kind) {
        "Closed" -> ClosedException(this)
        "Forked" -> ForkedException(this)
        "InvalidArgument" -> InvalidArgumentException(this)
        "LockLost" -> LockLostException(this)
        "LockTimeout" -> LockTimeoutException(this)
        "Misconfigured" -> MisconfiguredException(this)
        "NotOwner" -> NotOwnerException(this)
        "Unavailable" -> UnavailableException(this)
        else -> error("the native part failed with the unknown kind $kind: $message")
    }

/** The client was closed while the call was on its way, or before. */
internal fun clientClosed(lock: String?, operation: String): Failure {
    val subject = if (lock == null) operation else "$operation of lock \"${shown(lock)}\""
    return Failure("Closed", operation, "$subject: the client was closed; connect again", lock)
}

/** The event thread ended, by [cause], while the call was on its way. */
internal fun clientFailed(lock: String?, operation: String, cause: Throwable?): Failure {
    val subject = if (lock == null) operation else "$operation of lock \"${shown(lock)}\""
    val why = "the client failed (${cause ?: "a defect in the native part"})"
    return Failure("Unavailable", operation, "$subject: $why; connect again", lock, cause = why)
}

/** A mistake of the caller that shows without the core. */
internal fun invalidArgument(message: String, lock: String?, operation: String): InvalidArgumentException =
    InvalidArgumentException(Failure("InvalidArgument", operation, message, lock))

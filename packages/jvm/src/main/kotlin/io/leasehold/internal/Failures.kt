package io.leasehold.internal

import io.leasehold.ClosedException
import io.leasehold.ForkedException
import io.leasehold.InvalidArgumentException
import io.leasehold.LeaseholdException
import io.leasehold.LockLostException
import io.leasehold.LockTimeoutException
import io.leasehold.MisconfiguredException
import io.leasehold.NotOwnerException
import io.leasehold.UnavailableException

/** The exception that this is. */
internal fun Failure.toException(): LeaseholdException =
    when (kind) {
        "Closed" -> ClosedException(message, lock, operation)
        "Forked" -> ForkedException(message, lock, operation)
        "InvalidArgument" -> InvalidArgumentException(message, lock, operation)
        "LockLost" -> LockLostException(message, lock, operation, reason)
        "LockTimeout" -> LockTimeoutException(message, lock, operation, holder)
        "Misconfigured" -> MisconfiguredException(message, lock, operation)
        "NotOwner" -> NotOwnerException(message, lock, operation)
        "Unavailable" -> UnavailableException(message, lock, operation)
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
    val why = cause ?: "a defect in the native part"
    return Failure("Unavailable", operation, "$subject: the client failed ($why); connect again", lock)
}

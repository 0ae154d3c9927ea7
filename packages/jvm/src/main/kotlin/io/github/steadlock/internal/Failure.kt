package io.github.steadlock.internal

import io.github.steadlock.Holder
import io.github.steadlock.LostReason

/** An error as plain data. It becomes an exception only where it is thrown, so that the stack trace is the caller's. */
internal class Failure(
    val kind: String,
    val operation: String,
    val message: String,
    val lock: String?,
    val holder: Holder? = null,
    val reason: LostReason? = null,
    val node: String? = null,
    val isRetryable: Boolean = false,
    val cause: String? = null,
    val isSkipped: Boolean = false,
    val skip: Skip? = null,
)

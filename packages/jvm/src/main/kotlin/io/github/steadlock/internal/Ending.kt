package io.github.steadlock.internal

import io.github.steadlock.OnFailure
import io.github.steadlock.SkipReason
import java.time.Duration
import java.time.Instant

/** All that a release says beside the hold that it ends. */
internal sealed interface Ending {
    /** A plain release. */
    data object Plain : Ending

    /** A run of a job ends. [atLeastMs] replaces that of the request. For a lease that is no run, a plain release. */
    class Run(val end: RunEnd, val atLeastMs: Double? = null) : Ending

    /** A term ends, in favour of the candidate with the owner id [to] if it still waits. */
    class Resignation(val to: String) : Ending

    companion object {
        val SUCCEEDED = Run(RunEnd.SUCCEEDED)
        val FAILED = Run(RunEnd.FAILED)
        val UNUSED = Run(RunEnd.UNUSED)
    }
}

/** How a run ends, as the native part has it. */
internal enum class RunEnd {
    SUCCEEDED,
    FAILED,
    UNUSED,
}

/** All that a request for a run asks for beside its lease; null stands for the core's default. */
internal data class RunTerms(
    val atLeastMs: Double? = null,
    val key: String? = null,
    val keepMs: Double? = null,
    val onFailure: OnFailure? = null,
)

/** Why a job was skipped. */
internal class Skip(val reason: SkipReason, val since: Instant?, val took: Duration?)

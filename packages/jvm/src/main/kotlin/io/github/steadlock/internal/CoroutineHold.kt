package io.github.steadlock.internal

import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.Job
import java.util.concurrent.ConcurrentHashMap
import kotlin.coroutines.Continuation
import kotlin.coroutines.intrinsics.suspendCoroutineUninterceptedOrReturn
import kotlin.coroutines.jvm.internal.CoroutineStackFrame

/**
 * The hold of a coroutine's block, from [enter] until [close]. The block runs in [scope], which a loss of [lease]
 * cancels.
 *
 * A coroutine that the scope waits for would wait for itself if it acquired the lock again; [keepsOut] finds such a
 * call. The hold cannot be an element of the coroutine's context, because a flow refuses to emit if an element was
 * added to its context. For this reason a table here maps each lock to its holds, and each hold has its scope. A run of
 * a job and a term have no [lock] here, because nobody waits for a job, and a leader's lock is no lock of [NamedLock].
 */
internal class CoroutineHold(
    private val lock: ThreadLock?,
    private val lease: HeldLease,
    private val scope: Job,
) : AutoCloseable {
    private val keys = lock?.run { ref.names.map { LockKey(engine, it) } }.orEmpty()
    private var listener: AutoCloseable? = null

    fun enter() {
        for (key in keys) {
            held.compute(key) { _, holds ->
                (holds ?: ConcurrentHashMap.newKeySet()).apply { add(this@CoroutineHold) }
            }
        }
        // Does not use the program's executor, because that may be busy with this very block.
        listener =
            lease.onLostInternal { reason ->
                scope.cancel(CancellationException("lock \"${displayName(lease.name)}\" was lost: $reason"))
            }
    }

    override fun close() {
        listener?.close()
        for (key in keys) {
            held.computeIfPresent(key) { _, holds -> holds.apply { remove(this@CoroutineHold) }.ifEmpty { null } }
        }
    }

    private fun keepsOut(wanted: ThreadLock, callers: Set<Job>): Boolean =
        scope.waitsForAny(callers) && lock?.keepsOut(wanted) == true && lease.isKept

    /** The key of the table: a client and the name of one of its locks. */
    private data class LockKey(val engine: Engine, val name: String)

    companion object {
        private val held = ConcurrentHashMap<LockKey, MutableSet<CoroutineHold>>()

        /** Returns the holds that have a name in common with [lock]. */
        fun of(lock: ThreadLock): List<CoroutineHold> =
            lock.ref.names.flatMap { held[LockKey(lock.engine, it)].orEmpty() }

        /** Returns whether the caller runs in a block that holds a lock for which [wanted] would wait. */
        suspend fun keepsOut(wanted: ThreadLock): Boolean {
            val holds = of(wanted)
            if (holds.isEmpty()) return false
            val callers = callers()
            return holds.any { it.keepsOut(wanted, callers) }
        }

        /**
         * Returns the jobs of all functions on the caller's stack. Unlike the chain of parent jobs, the stack also has
         * the jobs outside a `withContext(NonCancellable)`.
         */
        private suspend fun callers(): Set<Job> =
            suspendCoroutineUninterceptedOrReturn { caller ->
                generateSequence(caller as? CoroutineStackFrame) { it.callerFrame }
                    .mapNotNull { (it as? Continuation<*>)?.context?.get(Job) }
                    .plus(listOfNotNull(caller.context[Job]))
                    .toSet()
            }

        /**
         * Whether this job or one of its descendants is among [jobs]. Walks down the children, because `Job.parent` is
         * experimental and may change with each version of the coroutines.
         */
        private fun Job.waitsForAny(jobs: Set<Job>): Boolean {
            val left = ArrayDeque(listOf(this))
            while (left.isNotEmpty()) {
                val job = left.removeLast()
                if (job in jobs) return true
                left += job.children
            }
            return false
        }
    }
}

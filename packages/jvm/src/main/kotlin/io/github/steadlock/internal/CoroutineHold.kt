package io.github.steadlock.internal

import kotlinx.coroutines.CancellationException
import kotlinx.coroutines.Job
import java.util.concurrent.ConcurrentHashMap
import kotlin.coroutines.Continuation
import kotlin.coroutines.intrinsics.suspendCoroutineUninterceptedOrReturn
import kotlin.coroutines.jvm.internal.CoroutineStackFrame

/**
 * The hold of a coroutine's block, from [enter] until [close]. A loss of [lease] cancels [scope], in which the block runs.
 *
 * A coroutine that the scope waits for would wait for itself if it asked for the lock again. The context cannot say so:
 * a flow refuses to emit where an element was added to its context. Therefore each hold is kept here with its scope.
 */
internal class CoroutineHold(
    private val lock: ThreadLock,
    private val lease: HeldLease,
    private val scope: Job,
) : AutoCloseable {
    private val places = lock.key.names.map { Place(lock.engine, it) }
    private var listener: AutoCloseable? = null

    fun enter() {
        for (place in places) {
            held.compute(place) { _, holds ->
                (holds ?: ConcurrentHashMap.newKeySet()).apply { add(this@CoroutineHold) }
            }
        }
        // The program's executor, which may be busy with this very block, is for the program's listeners alone.
        listener =
            lease.onLostHere { reason ->
                scope.cancel(CancellationException("lock \"${shown(lock.name)}\" was lost: $reason"))
            }
    }

    override fun close() {
        listener?.close()
        for (place in places) {
            held.computeIfPresent(place) { _, holds -> holds.apply { remove(this@CoroutineHold) }.ifEmpty { null } }
        }
    }

    private fun keepsOut(wanted: ThreadLock, callers: Set<Job>): Boolean =
        scope.waitsForAny(callers) && lock.keepsOut(wanted) && lease.isKept

    /** A lock of a client by its name. */
    private data class Place(val engine: Engine, val name: String)

    companion object {
        private val held = ConcurrentHashMap<Place, MutableSet<CoroutineHold>>()

        /** The holds of a lock that has one of the names of [lock]. */
        fun of(lock: ThreadLock): List<CoroutineHold> =
            lock.key.names.flatMap { held[Place(lock.engine, it)].orEmpty() }

        /** Whether the caller is in a block that holds a lock for whose release it would wait if it asked for [wanted]. */
        suspend fun keepsOut(wanted: ThreadLock): Boolean {
            val holds = of(wanted)
            if (holds.isEmpty()) return false
            val callers = callers()
            return holds.any { it.keepsOut(wanted, callers) }
        }

        /** The jobs of the functions that wait for the caller, also of those around a `withContext(NonCancellable)`. */
        private suspend fun callers(): Set<Job> =
            suspendCoroutineUninterceptedOrReturn { caller ->
                generateSequence(caller as? CoroutineStackFrame) { it.callerFrame }
                    .mapNotNull { (it as? Continuation<*>)?.context?.get(Job) }
                    .plus(listOfNotNull(caller.context[Job]))
                    .toSet()
            }

        /** Looks downwards: `Job.parent` may change with each version of the coroutines. */
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

package io.github.steadlock.internal

import io.github.steadlock.Lease
import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import io.github.steadlock.lostException
import java.lang.ref.Reference
import java.lang.ref.WeakReference
import java.util.concurrent.CompletableFuture
import java.util.concurrent.CompletionStage
import java.util.concurrent.CopyOnWriteArrayList
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicReference
import java.util.function.Consumer

/**
 * A lease as the engine keeps it while it is held. The program has a [Lease] of it, if it asked for one; the two are
 * apart so that it shows whether the program still has it.
 */
internal class HeldLease(
    val engine: Engine,
    val id: Long,
    val name: String,
    val token: Long?,
    val isDegraded: Boolean,
    val owner: Owner?,
    private val observed: ObservedHold? = null,
) {
    private val lost = AtomicReference<LostReason?>()
    private val listeners = CopyOnWriteArrayList<Listener>()
    private val releasing = AtomicReference<Request?>()

    @Volatile
    private var outcome: ReleaseOutcome? = null

    @Volatile
    private var lostAtRelease: LostReason? = null

    @Volatile
    private var handle: WeakReference<Lease>? = null

    /** The program's object for it, the same one for as long as the program has it. */
    fun lease(): Lease =
        handle?.get() ?: synchronized(this) {
            handle?.get() ?: Lease(this).also { handle = WeakReference(it) }
        }

    /** How long it may be relied on. */
    val remainingNanos: Long
        get() = if (outcome == null && lost.get() == null) engine.remainingNanos(this) else 0

    /** Why it was lost, or null if it was not. */
    val lostReason: LostReason?
        get() = lost.get()

    val isReleasing: Boolean
        get() = releasing.get() != null

    /** False once it was released, or lost in a way that nobody need release it. */
    val isKept: Boolean
        get() = engine.keeps(this)

    /** Whether its thread has ended and nobody else can release it. An entered scope, too, has its [Lease]. */
    val isAbandoned: Boolean
        get() = owner?.hasEnded == true && handle?.get() == null

    /** [listener] is the program's, and for its executor. */
    fun onLost(listener: Consumer<LostReason>): AutoCloseable = add(Listener(engine.callbacks::run, listener))

    /** [listener] runs on a thread of the client, whatever the program's executor does. */
    fun onLostHere(listener: Consumer<LostReason>): AutoCloseable = add(Listener(engine.callbacks::runHere, listener))

    private fun add(added: Listener): AutoCloseable {
        listeners.add(added)
        lost.get()?.let { tell(added, it) }
        return AutoCloseable { listeners.remove(added) }
    }

    /** Makes it last [byMs], or its own length, from now. */
    fun extend(byMs: Double?) {
        try {
            engine.extend(this, byMs).await().expect<Reply.Extended>()
        } finally {
            // The native part forgets a lost lease when this is garbage, which is not to be before it has answered.
            Reference.reachabilityFence(this)
        }
    }

    fun release(): ReleaseOutcome = outcome ?: outcomeOf(startRelease().await())

    fun releaseAsync(): CompletionStage<ReleaseOutcome> {
        outcome?.let { return CompletableFuture.completedFuture(it) }
        val result = engine.callbacks.future<ReleaseOutcome>()
        startRelease().thenAccept { reply ->
            engine.callbacks.run {
                try {
                    result.complete(outcomeOf(reply))
                } catch (failed: RuntimeException) {
                    result.completeExceptionally(failed)
                }
            }
        }
        return result
    }

    /** What a release came to. */
    fun outcomeOf(reply: Reply): ReleaseOutcome = reply.expect<Reply.Released>().outcome

    /** Throws if the lease, which was released, was lost before or by what its release found out. */
    fun checkNotLost() {
        val reason = lostReason ?: lostAtRelease ?: return
        throw lostException(name, reason)
    }

    /** Starts to release, unless that was started before. */
    fun startRelease(): Request {
        while (true) {
            releasing.get()?.let { return it }
            val ours = Request(0, "release", name)
            if (releasing.compareAndSet(null, ours)) {
                try {
                    engine.release(this).thenAccept {
                        ours.complete(engine.released(this, it))
                        // As in [extend], for callers that wait and for those that do not.
                        Reference.reachabilityFence(this)
                    }
                } catch (failure: Throwable) {
                    // As when the caller's stack is full: the next call releases it.
                    releasing.set(null)
                    throw failure
                }
                return ours
            }
        }
    }

    /** [lost] says why its release came too late, if it did. */
    fun markReleased(outcome: ReleaseOutcome, lost: LostReason?) {
        lostAtRelease = lost
        this.outcome = outcome
        listeners.clear()
        observed?.released(outcome, lost)
    }

    fun markLost(reason: LostReason) {
        if (outcome == null && lost.compareAndSet(null, reason)) {
            listeners.forEach { tell(it, reason) }
            observed?.lost(reason)
        }
    }

    private fun tell(listener: Listener, reason: LostReason) {
        if (listener.told.compareAndSet(false, true)) {
            listeners.remove(listener)
            listener.run { listener.action.accept(reason) }
        }
    }

    private class Listener(val run: (Runnable) -> Unit, val action: Consumer<LostReason>) {
        val told = AtomicBoolean()
    }
}

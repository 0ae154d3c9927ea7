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
    acquisition: Acquisition,
    val token: Long?,
    val isDegraded: Boolean,
    private val observed: ObservedHold? = null,
) {
    val lock: LockKey = acquisition.lock
    val owner: Owner = acquisition.owner

    /** The owner of the hold, whom the core knows again. */
    val context: Long = acquisition.context

    private val isRenewed = acquisition.isRenewed
    private val lost = AtomicReference<LostReason?>()
    private val listeners = CopyOnWriteArrayList<Listener>()
    private val releasing = AtomicReference<Request?>()

    @Volatile
    private var outcome: ReleaseOutcome? = null

    @Volatile
    private var lostAtRelease: LostReason? = null

    @Volatile
    private var handle: WeakReference<Lease>? = null

    /** Where a lease is that a stage was completed with; null of others. */
    private val stage = AtomicReference<Stage?>()

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
        get() = owner.hasEnded && handle?.get() == null

    /** Whether the program drops a lease of a stage: nothing says any more when what it guards is over. */
    private val isDropped: Boolean
        get() = isRenewed && !isReleasing && lost.get() == null && listeners.isEmpty() && handle?.get() == null

    val name: String
        get() = lock.name

    /** Whether its owner enters [other], of [engine], again or would wait for itself. */
    fun covers(engine: Engine, other: LockKey): Boolean =
        (engine === this.engine && isKept && other.address == lock.address) || keepsOut(engine, other)

    /** Whether others wait for its end if they ask for [other], of [engine]. */
    fun keepsOut(engine: Engine, other: LockKey): Boolean =
        engine === this.engine && lock.mayShareNameWith(other) && isKept && engine.keepsOut(lock, other)

    /** A stage was completed with the lease; [isTaken] if code of the program has it. */
    fun giveToStage(isTaken: Boolean) {
        stage.set(if (isTaken) Stage.TAKEN else Stage.COMPLETED)
    }

    /** Code of the program has the lease. */
    fun take() {
        stage.compareAndSet(Stage.COMPLETED, Stage.TAKEN)
    }

    /**
     * Tells of a lease of a stage that the program has dropped. What no code of the program has seen is released.
     * The rest stays held, as garbage is no proof that nobody relies on it.
     */
    fun tellIfDropped() {
        val last = stage.get()
        if (last == null || last == Stage.TOLD || !isDropped || !stage.compareAndSet(last, Stage.TOLD)) return
        val subject = "the lease of lock \"${shown(name)}\" was dropped without a release"
        if (last == Stage.COMPLETED) {
            Log.warn("$subject: no code took it from its stage; it is released now")
            startRelease()
        } else {
            Log.warn(
                "$subject: the lock stays held, and is renewed, until the client is closed; keep the lease to release it",
            )
        }
    }

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
        val result = AwaitedFuture<ReleaseOutcome>()
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

    private enum class Stage {
        /** Only the stage has it. */
        COMPLETED,

        /** Code of the program has it. */
        TAKEN,

        /** The program was told that it dropped it. */
        TOLD,
    }

    private class Listener(val run: (Runnable) -> Unit, val action: Consumer<LostReason>) {
        val told = AtomicBoolean()
    }
}

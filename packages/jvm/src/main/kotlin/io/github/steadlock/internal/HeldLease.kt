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
 * The engine's object of a held lease. The program has a separate object, a [Lease], if it asked for one. The two are
 * separate so that garbage collection shows whether the program still has its own.
 */
internal class HeldLease(
    val engine: Engine,
    val id: Long,
    acquisition: Acquisition,
    val token: Long?,
    val isDegraded: Boolean,
    private val observed: ObservedHold? = null,
) {
    val lock: LockRef = acquisition.lock
    val owner: Owner = acquisition.owner

    /** The number by which the core recognizes the owner of the hold. */
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

    /** The state of a lease with which a stage was completed; null for other leases. */
    private val stage = AtomicReference<Stage?>()

    /** Returns the program's object of this lease: the same one as long as the program has it. */
    fun lease(): Lease =
        handle?.get() ?: synchronized(this) {
            handle?.get() ?: Lease(this).also { handle = WeakReference(it) }
        }

    /** How long the holder may rely on the lease, in nanoseconds. */
    val remainingNanos: Long
        get() = if (outcome == null && lost.get() == null) engine.remainingNanos(this) else 0

    /** The reason for the loss of the lease, or null if it was not lost. */
    val lostReason: LostReason?
        get() = lost.get()

    val isReleasing: Boolean
        get() = releasing.get() != null

    /**
     * Whether the lease still has to be released: it was not released yet, and not lost in a way that needs no release.
     */
    val isKept: Boolean
        get() = engine.tracks(this)

    /**
     * Whether the lease's thread has ended and no other code can release the lease. A block such as `withLock` keeps a
     * [Lease] object until the block ends.
     */
    val isAbandoned: Boolean
        get() = owner.hasEnded && handle?.get() == null

    /**
     * Whether the program has dropped a lease of a stage, so that the lease would be renewed without end and never
     * released. A lease with a listener does not count as dropped.
     */
    private val isDropped: Boolean
        get() = isRenewed && !isReleasing && lost.get() == null && listeners.isEmpty() && handle?.get() == null

    val name: String
        get() = lock.name

    /**
     * Returns whether the owner of this lease would re-enter it, or wait for itself, by acquiring [other], a lock of
     * [engine].
     */
    fun covers(engine: Engine, other: LockRef): Boolean =
        (engine === this.engine && isKept && other == lock) || keepsOut(engine, other)

    /**
     * Returns whether other callers would wait for the end of this lease if they acquired [other], a lock of [engine].
     */
    fun keepsOut(engine: Engine, other: LockRef): Boolean =
        engine === this.engine && lock.mayShareNameWith(other) && isKept && engine.keepsOut(lock, other)

    /** Records that a stage was completed with the lease. [isTaken] means that code of the program already has it. */
    fun giveToStage(isTaken: Boolean) {
        stage.set(if (isTaken) Stage.TAKEN else Stage.COMPLETED)
    }

    /** Records that code of the program has the lease. */
    fun markTaken() {
        stage.compareAndSet(Stage.COMPLETED, Stage.TAKEN)
    }

    /**
     * Logs a warning if this is a lease of a stage that the program has dropped. Releases the lease if no code of the
     * program has seen it. Otherwise the lock stays held, because the program may rely on it even though the [Lease] is
     * garbage.
     */
    fun warnIfDropped() {
        val last = stage.get()
        if (last == null || last == Stage.WARNED || !isDropped || !stage.compareAndSet(last, Stage.WARNED)) return
        val subject = "the lease of lock \"${displayName(name)}\" was dropped without a release"
        if (last == Stage.COMPLETED) {
            Log.warn("$subject: no code took it from its stage; it is released now")
            startRelease()
        } else {
            Log.warn(
                "$subject: the lock stays held, and is renewed, until the client is closed; keep the lease to release it",
            )
        }
    }

    /** Adds a listener of the program, which runs on the program's executor. */
    fun onLost(listener: Consumer<LostReason>): AutoCloseable = add(Listener(engine.callbacks::run, listener))

    /** Adds a listener that runs on a thread of the client, independently of the program's executor. */
    fun onLostInternal(listener: Consumer<LostReason>): AutoCloseable =
        add(Listener(engine.callbacks::runInternal, listener))

    private fun add(added: Listener): AutoCloseable {
        listeners.add(added)
        lost.get()?.let { notifyListener(added, it) }
        return AutoCloseable { listeners.remove(added) }
    }

    /** Extends the lease to [byMs], or to its own length, from now. */
    fun extend(byMs: Double?) {
        try {
            engine.extend(this, byMs).await().expect<Reply.Extended>()
        } finally {
            // The native part forgets a lost lease when this object is garbage, so this object must stay until the
            // reply.
            Reference.reachabilityFence(this)
        }
    }

    fun release(ending: Ending = Ending.Plain): ReleaseOutcome = outcome ?: outcomeOf(startRelease(ending).await())

    fun releaseAsync(ending: Ending = Ending.Plain): CompletionStage<ReleaseOutcome> {
        outcome?.let { return CompletableFuture.completedFuture(it) }
        val result = AwaitedFuture<ReleaseOutcome>()
        startRelease(ending).thenAccept { reply ->
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

    /** Returns the outcome of a release with this reply. */
    fun outcomeOf(reply: Reply): ReleaseOutcome = reply.expect<Reply.Released>().outcome

    /** Throws if the lease was lost before its release, or if the release noticed a loss. */
    fun checkNotLost() {
        val reason = lostReason ?: lostAtRelease ?: return
        throw lostException(name, reason)
    }

    /** Starts the release, unless it was started before. */
    fun startRelease(ending: Ending = Ending.Plain): Request {
        while (true) {
            releasing.get()?.let { return it }
            val ours = Request(0, "release", name)
            if (releasing.compareAndSet(null, ours)) {
                try {
                    engine.release(this, ending).thenAccept {
                        ours.complete(engine.released(this, it))
                        // Keeps this object until the reply, as [extend] does.
                        Reference.reachabilityFence(this)
                    }
                } catch (failure: Throwable) {
                    // The release was not sent, for example because the caller's stack is full. The next call sends it.
                    releasing.set(null)
                    throw failure
                }
                return ours
            }
        }
    }

    /** Records the end of the release. [lost] is the reason if the release came too late. */
    fun markReleased(outcome: ReleaseOutcome, lost: LostReason?) {
        lostAtRelease = lost
        this.outcome = outcome
        listeners.clear()
        observed?.released(outcome, lost)
    }

    fun markLost(reason: LostReason) {
        if (outcome == null && lost.compareAndSet(null, reason)) {
            listeners.forEach { notifyListener(it, reason) }
            observed?.lost(reason)
        }
    }

    private fun notifyListener(listener: Listener, reason: LostReason) {
        if (listener.isNotified.compareAndSet(false, true)) {
            listeners.remove(listener)
            listener.run { listener.action.accept(reason) }
        }
    }

    private enum class Stage {
        /** Only the stage has the lease. */
        COMPLETED,

        /** Code of the program has the lease. */
        TAKEN,

        /** A warning has told the program that it dropped the lease. */
        WARNED,
    }

    private class Listener(val run: (Runnable) -> Unit, val action: Consumer<LostReason>) {
        val isNotified = AtomicBoolean()
    }
}

package io.github.steadlock.internal

import io.github.steadlock.LockOptions
import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicLong
import kotlin.math.min

/**
 * One client's side of the native part: requests on their way, leases that are held, and the one daemon thread that
 * fetches events. It knows no rule of locking; those are the core's.
 */
internal class Engine private constructor(
    private val face: NativeFace,
    private val handle: Long,
    val callbacks: Callbacks,
) : EventSink {
    private val tags = AtomicLong(CONNECT)
    private val pending = ConcurrentHashMap<Long, Request>()
    private val leases = ConcurrentHashMap<Long, HeldLease>()
    private val closing = AtomicBoolean()
    private val closed = CompletableFuture<Unit>()
    private val observers = Observers()

    /** Whether the program has dropped the client, and whatever came of it, without closing it. */
    @Volatile
    private var isDropped = false

    /** What releases come to since the client was closed, where that is not `released`. */
    private val endings = ConcurrentHashMap<Long, Reply.Released>()

    /** Whether the native part has said all of that. */
    @Volatile
    private var knowsEndings = false

    /** What the client had counted when it was closed. */
    @Volatile
    private var counted: Counted<String>? = null

    /** The same as rows. */
    @Volatile
    private var countedRows: Counted<List<Metric>>? = null

    @Volatile
    private var longestWaitMs = IDLE_MS

    val isClosed: Boolean
        get() = closing.get()

    /** Starts to take a lock; [owner] is who may re-enter implicitly. */
    fun acquire(lock: LockKey, owner: Owner, options: LockOptions): Request {
        val context = options.within?.held?.context ?: owner.context
        val isRenewed = options.leaseMs == null || options.renew
        val acquisition = Acquisition(lock, owner, context, isRenewed, observers.asked(lock, owner))
        return start("acquire", lock.name, acquisition) { face.acquire(handle, it, lock.bytes, owner, options) }
    }

    fun release(lease: HeldLease): Request = start("release", lease.name) { face.release(handle, it, lease.id) }

    /** What a release came to that was answered so: a closed client has released [lease] itself. */
    fun released(lease: HeldLease, reply: Reply): Reply {
        if (reply !is Reply.Failed || reply.failure.kind != "Closed") return reply
        val others = if (knowsEndings) ReleaseOutcome.RELEASED else ReleaseOutcome.UNKNOWN
        return endings[lease.id] ?: Reply.Released(others, null)
    }

    fun releaseInnermost(lock: LockKey, owner: Owner): Request =
        start("release", lock.name) { face.releaseInnermost(handle, it, lock.bytes, owner.context) }

    fun extend(lease: HeldLease, byMs: Double?): Request =
        start("extend", lease.name) { face.extend(handle, it, lease.id, byMs) }

    fun inspect(lock: LockKey): Request = start("inspect", lock.name) { face.inspect(handle, it, lock.address) }

    fun forceRelease(lock: LockKey): Request =
        start("release", lock.name) { face.forceRelease(handle, it, lock.address) }

    fun setLimit(semaphore: LockKey): Request =
        start("set_limit", semaphore.name) { face.setLimit(handle, it, semaphore.address) }

    fun held(lock: LockKey, owner: Owner): Request =
        start("inspect", lock.name) { face.held(handle, it, lock.bytes, owner.context) }

    /** Whether a holder of [lock] would wait for itself if it asked for [wanted]. */
    fun keepsOut(lock: LockKey, wanted: LockKey): Boolean = face.keepsOut(handle, lock.address, wanted.address)

    fun remainingNanos(lease: HeldLease): Long = face.remaining(handle, lease.id)

    /** Whether [lease] is held, or lost and still to be released. */
    fun keeps(lease: HeldLease): Boolean = leases.containsKey(lease.id)

    /**
     * The caller of [request] goes away. Gives whether that came before the reply; if so, a grant that comes
     * anyway is released.
     */
    fun cancel(request: Request): Boolean {
        if (!request.cancel(false)) {
            return false
        }
        pending.remove(request.tag)
        if (request.native >= 0) {
            face.cancel(handle, request.native)
        }
        return true
    }

    /** Waits for the reply; an interrupt cancels the request. */
    fun awaitInterruptibly(request: Request): Reply {
        try {
            return request.get()
        } catch (interrupt: InterruptedException) {
            if (cancel(request)) {
                throw interrupt
            }
            // The reply was faster: it counts, and the interrupt is for the next who asks.
            Thread.currentThread().interrupt()
            return request.join()
        }
    }

    /** What the client has counted, as a text for Prometheus. */
    fun metrics(): String = metricsOf(face.metrics(handle) ?: counted)

    /** The same as rows. */
    fun metricRows(): List<Metric> = metricsOf(face.metricRows(handle) ?: countedRows)

    /** The label that locks of this name have for their group in [metrics], or null if nothing is known of it. */
    fun metricsGroup(name: String): String? = face.metricsGroup(handle, name)

    /**
     * Tells [observer] what happens from now on.
     *
     * @throws IllegalStateException if there is one of its class already, which is to be the only one
     */
    fun observe(observer: Observer) {
        observers.add(observer)
        if (isClosed) {
            unobserve(observer)
            throw clientClosed(null, "inspect").toException()
        }
    }

    /** Tells [observer] of no further acquisitions; those that it knows of go on. */
    fun unobserve(observer: Observer) = observers.remove(observer)

    /** Closes within 500 ms, whatever the server and the logger do; a second call waits for the first. */
    fun close() {
        if (closing.compareAndSet(false, true)) {
            val start = System.nanoTime()
            tellOfHeld()
            try {
                knowsEndings = start("close", null) { face.close(handle, it) }.await(CLOSE_LIMIT_MS) == Reply.Closed
            } finally {
                try {
                    discard(start)
                } finally {
                    closed.complete(Unit)
                }
            }
            Log.flush(flushMs(start))
        }
        closed.join()
    }

    /** Says which locks are released though nobody has released them. */
    private fun tellOfHeld() {
        val held =
            leases.values
                .filter { !it.isReleasing && it.lostReason == null }
                .map { lease -> "\"${shown(lease.name)}\"" + lease.owner.threadName?.let { " (thread $it)" }.orEmpty() }
                .distinct()
        if (held.isEmpty()) return
        val more = if (held.size > MOST_NAMED) " and ${held.size - MOST_NAMED} more" else ""
        val named = held.take(MOST_NAMED).joinToString(", ")
        Log.warn("a SteadlockClient is closed while it holds locks, which are released: $named$more")
    }

    /**
     * The program dropped the client without closing it. What is held is not torn away, since garbage is no proof that
     * nobody relies on it; the client closes when nothing is held or asked for any more.
     */
    fun drop() {
        if (closing.get()) return
        val names = leases.values.map(HeldLease::name).distinct()
        isDropped = true
        wake()
        val held = names.map(::shown)
        val now = if (held.isEmpty()) "its connection is closed now" else "it stays open for the locks it holds: $held"
        Log.warn("a SteadlockClient was dropped without close(); $now")
    }

    /** Releases the holds of threads that have ended, and waits for that. */
    fun releaseAbandonedNow(timeoutMs: Long) {
        val abandoned = abandoned()
        if (abandoned.isNotEmpty()) {
            face.releaseNow(handle, abandoned.map(HeldLease::id), timeoutMs)
        }
    }

    /**
     * From now on the event thread comes out of native code often. A JVM that ends waits up to 300 ms for threads
     * that are inside.
     */
    fun letTheJvmEnd() {
        longestWaitMs = ENDING_MS
        wake()
    }

    override fun granted(tag: Long, lease: Long, token: Long?, isDegraded: Boolean) {
        val request = pending.remove(tag)
        val acquisition = request?.acquisition
        if (acquisition == null) {
            // Its caller went away while the grant was on its way here.
            face.release(handle, tags.incrementAndGet(), lease)
            return
        }
        val observed = acquisition.observed?.granted(token, isDegraded) { face.remaining(handle, lease) }
        val granted = HeldLease(this, lease, acquisition, token, isDegraded, observed)
        leases[lease] = granted
        if (!request.complete(Reply.Granted(granted))) {
            granted.startRelease()
        }
    }

    override fun released(tag: Long, lease: Long, outcome: ReleaseOutcome, lost: LostReason?) {
        val released = Reply.Released(outcome, lost)
        if (tag == NOBODY) {
            endings[lease] = released
            return
        }
        leases.remove(lease)?.markReleased(outcome, lost)
        replied(tag, released)
    }

    override fun held(tag: Long, levels: Int, lease: Long?) {
        replied(tag, Reply.Held(levels, lease?.let(leases::get)))
    }

    override fun replied(tag: Long, reply: Reply) {
        pending.remove(tag)?.complete(reply)
    }

    override fun lost(lease: Long, reason: LostReason, isForgotten: Boolean) {
        val lost = (if (isForgotten) leases.remove(lease) else leases[lease]) ?: return
        if (reason != LostReason.CLOSED) {
            // The native part answers by its own object as long as the program has this one.
            cleaner.register(lost, forgetting(face, handle, lease))
        }
        lost.markLost(reason)
    }

    override fun observed(line: LogLine) = Log.write(line)

    private inline fun start(
        operation: String,
        name: String?,
        acquisition: Acquisition? = null,
        submit: (Long) -> Long,
    ): Request {
        val request = Request(tags.incrementAndGet(), operation, name, acquisition)
        pending[request.tag] = request
        try {
            request.native = submit(request.tag)
        } catch (failure: Throwable) {
            // The native part may have the request, as when the caller's stack is full: a grant that nobody waits for
            // is released; one that has come already, by another thread.
            pending.remove(request.tag)
            if (!request.cancel(false)) {
                (request.getNow(null) as? Reply.Granted)?.let { callbacks.runHere { it.lease.startRelease() } }
            }
            throw failure
        }
        if (request.native < 0 && pending.remove(request.tag) != null) {
            request.complete(Reply.Failed(refusal(request.native, operation, name)))
        }
        return request
    }

    private fun refusal(code: Long, operation: String, name: String?): Failure =
        if (code == NativeFace.DROPPED) {
            clientClosed(name, operation)
        } else {
            val why = "a defect in the native part (code $code)"
            Failure("Unavailable", operation, "$operation: $why; please report it", name, cause = why)
        }

    /** Makes the event thread look around. Any event does that; this one needs no server. */
    private fun wake() {
        start("inspect", null) { face.held(handle, it, ANY_LOCK.bytes, 0) }
    }

    private fun fetchEvents() {
        var cause: Throwable? = null
        try {
            handleEvents()
        } catch (failure: Throwable) {
            cause = failure
            Log.error("the client fails: its event thread ended; please report this", failure)
        } finally {
            failAll(cause)
        }
    }

    private fun handleEvents() {
        val buffer = ByteBuffer.allocateDirect(BUFFER_BYTES).order(ByteOrder.LITTLE_ENDIAN)
        var swept = System.nanoTime()
        while (true) {
            val idle = if (leases.isEmpty() && !isDropped) IDLE_MS else SWEEP_MS
            val written = face.next(handle, min(longestWaitMs, idle), buffer)
            if (written < 0) {
                return
            }
            buffer.clear().limit(written)
            EventReader(buffer).readAll(this)
            val now = System.nanoTime()
            if (now - swept >= TimeUnit.MILLISECONDS.toNanos(SWEEP_MS)) {
                swept = now
                sweep()
            }
            if (isDropped && !closing.get() && leases.isEmpty() && pending.isEmpty()) {
                callbacks.runHere(::close)
            }
        }
    }

    /** Nothing tells the program anything from now on, so whatever it waits for or relies on is over. */
    private fun failAll(cause: Throwable?) {
        val failure = { request: Request ->
            if (cause == null && closing.get()) {
                clientClosed(request.name, request.operation)
            } else {
                clientFailed(request.name, request.operation, cause)
            }
        }
        // Whoever closes it already does the rest.
        fail(failure)
        if (closing.compareAndSet(false, true)) {
            discard()
            closed.complete(Unit)
        }
    }

    /** Releases what nobody can release any more, or says that nobody can. */
    private fun sweep() {
        val abandoned = abandoned().filterNot(HeldLease::isReleasing)
        // A thread that held a lock at several levels ended once.
        for (levels in abandoned.groupBy { it.context to it.lock.address }.values) {
            val lease = levels.first()
            val name = shown(lease.name)
            Log.warn("thread ${lease.owner.threadName} ended while it held lock \"$name\", which is released now")
            levels.forEach(HeldLease::startRelease)
        }
        leases.values.forEach(HeldLease::tellIfDropped)
    }

    private fun abandoned(): List<HeldLease> = leases.values.filter(HeldLease::isAbandoned)

    /** [closingSince] is when closing began. */
    private fun discard(closingSince: Long = System.nanoTime()) {
        Exit.remove(this)
        leases.values.forEach { it.markLost(LostReason.CLOSED) }
        leases.clear()
        observers.close { flushMs(closingSince) }
        counted = face.metrics(handle)
        countedRows = face.metricRows(handle)
        face.dropClient(handle)
        fail { clientClosed(it.name, it.operation) }
    }

    private fun <T> metricsOf(counted: Counted<T>?): T {
        val known = counted ?: throw clientClosed(null, "inspect").toException()
        known.failure?.let { throw it.toException() }
        return known.metrics
    }

    /** How long what is closed since [start] may wait for a user's code to be done. */
    private fun flushMs(start: Long): Long =
        min(FLUSH_MS, CLOSE_MS - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start))

    private fun fail(failure: (Request) -> Failure) {
        for (tag in pending.keys) {
            val request = pending.remove(tag) ?: continue
            request.complete(Reply.Failed(failure(request)))
        }
    }

    companion object {
        /** Connects; waits as long as the connect timeout says. An interrupt is kept for later. */
        fun connect(options: ClientOptions, callbacks: Callbacks, face: NativeFace = LoadedFace.instance): Engine {
            val opened = face.open(options)
            opened.failure?.let { throw it.toException() }
            val engine = Engine(face, opened.handle, callbacks)
            val connecting = Request(CONNECT, "connect", null)
            if (!options.isLazy) {
                engine.pending[CONNECT] = connecting
            }
            val events = Thread(null, engine::fetchEvents, "steadlock-events-${opened.handle}", 0, false)
            events.apply { isDaemon = true }.start()
            try {
                if (!options.isLazy) {
                    connecting.await().orThrow()
                }
            } catch (failed: RuntimeException) {
                engine.closing.set(true)
                engine.discard()
                engine.closed.complete(Unit)
                throw failed
            }
            Exit.add(engine)
            return engine
        }

        /** What is done when a lease is garbage that was lost; it refers to none. */
        private fun forgetting(face: NativeFace, handle: Long, lease: Long) = Runnable { face.forget(handle, lease) }

        /** The tag of connecting; others count from here. */
        private const val CONNECT = 0L

        /** That of what the native part says of its own accord. */
        private const val NOBODY = -1L
        private const val BUFFER_BYTES = 64 * 1024
        private const val IDLE_MS = 3_600_000L

        /** How many locks one line of the log names. */
        private const val MOST_NAMED = 10
        private const val SWEEP_MS = 1_000L
        private const val ENDING_MS = 5L
        private val ANY_LOCK = Kind.LOCK.key("-")

        /** The core's own limit. */
        private const val CLOSE_MS = 500L

        /** For the case that the core's answer is lost. */
        private const val CLOSE_LIMIT_MS = 1_000L

        /** What a program that ends after its last client gives the logger, and telemetry, for what came last. */
        private const val FLUSH_MS = 100L
    }
}

package io.github.steadlock.internal

import io.github.steadlock.LockOptions
import io.github.steadlock.LostReason
import io.github.steadlock.ReleaseOutcome
import java.nio.ByteBuffer
import java.nio.ByteOrder
import java.time.Duration
import java.util.concurrent.CompletableFuture
import java.util.concurrent.ConcurrentHashMap
import java.util.concurrent.TimeUnit
import java.util.concurrent.TimeoutException
import java.util.concurrent.atomic.AtomicBoolean
import java.util.concurrent.atomic.AtomicLong
import kotlin.math.min

/**
 * The JVM side of one client's native part: requests without a reply, held leases, and the one daemon thread that
 * fetches events. All rules of locking are in the core.
 */
internal class Engine private constructor(
    private val native: NativeApi,
    private val handle: Long,
    val callbacks: Callbacks,
) : EventSink {
    private val tags = AtomicLong(CONNECT)
    private val pending = ConcurrentHashMap<Long, Request>()
    private val leases = ConcurrentHashMap<Long, HeldLease>()
    private val closing = AtomicBoolean()
    private val closed = CompletableFuture<Unit>()
    private val observers = Observers()

    /** Whether the program has dropped the client and all of its lock objects without closing it. */
    @Volatile
    private var isDropped = false

    /**
     * The outcomes of the releases that the close made, by lease id. A lease has no entry if the outcome is `released`.
     */
    private val closeOutcomes = ConcurrentHashMap<Long, Reply.Released>()

    /** Whether [closeOutcomes] is complete. */
    @Volatile
    private var knowsOutcomes = false

    /** The metrics at the time when the client was closed. */
    @Volatile
    private var counted: Counted<String>? = null

    /** The same metrics as rows. */
    @Volatile
    private var countedRows: Counted<List<Metric>>? = null

    @Volatile
    private var longestWaitMs = IDLE_MS

    val isClosed: Boolean
        get() = closing.get()

    /** Starts an acquisition for [owner], or for the owner of the lease that [options] name as `within`. */
    fun acquire(lock: LockRef, owner: Owner, options: LockOptions): Request {
        val context = options.within?.held?.context ?: owner.context
        val isRenewed = options.leaseMs == null || options.renew
        val acquisition = Acquisition(lock, owner, context, isRenewed, observers.requested(lock, owner))
        return start("acquire", lock.name, acquisition) { native.acquire(handle, it, lock.bytes, owner, options) }
    }

    /** Starts to request a run of a job, which never waits. */
    fun acquireRun(job: LockRef, options: LockOptions, terms: RunTerms): Request {
        val owner = Owner.ofNoThread()
        val isRenewed = options.leaseMs == null || options.renew
        val acquisition = Acquisition(job, owner, owner.context, isRenewed, observers.requested(job, owner))
        return start("acquire", job.name, acquisition) { native.acquireRun(handle, it, job.bytes, options, terms) }
    }

    fun release(lease: HeldLease, ending: Ending): Request =
        start("release", lease.name) {
            when (ending) {
                Ending.Plain -> native.release(handle, it, lease.id)
                is Ending.Run -> native.endRun(handle, it, lease.id, ending.end, ending.atLeastMs)
                is Ending.Resignation -> native.resign(handle, it, lease.id, ending.to)
            }
        }

    fun lastRun(job: LockRef): Request = start("inspect", job.name) { native.lastRun(handle, it, job.bytes) }

    /** Starts to ask who leads. With [seen], the request ends as soon as that has changed. */
    fun leadership(leader: LockRef, seen: Long?): Request =
        start("inspect", leader.name) { native.leadership(handle, it, leader.bytes, seen) }

    /** Returns the pause before a candidate campaigns again, after [failures] lost terms one after another. */
    fun campaignPauseMs(failures: Int): Long = native.campaignPauseMs(failures)

    /**
     * Returns the result of a release of [lease] that got [reply]. If the client is closed, the close has released the
     * lease: the outcome is then that of [closeOutcomes], or unknown if the close got no reply.
     */
    fun released(lease: HeldLease, reply: Reply): Reply {
        if (reply !is Reply.Failed || reply.failure.kind != "Closed") return reply
        val unlisted = if (knowsOutcomes) ReleaseOutcome.RELEASED else ReleaseOutcome.UNKNOWN
        return closeOutcomes[lease.id] ?: Reply.Released(unlisted, null)
    }

    fun releaseInnermost(lock: LockRef, owner: Owner): Request =
        start("release", lock.name) { native.releaseInnermost(handle, it, lock.bytes, owner.context) }

    fun extend(lease: HeldLease, byMs: Double?): Request =
        start("extend", lease.name) { native.extend(handle, it, lease.id, byMs) }

    fun inspect(lock: LockRef): Request = start("inspect", lock.name) { native.inspect(handle, it, lock.bytes) }

    fun forceRelease(lock: LockRef): Request =
        start("release", lock.name) { native.forceRelease(handle, it, lock.bytes) }

    fun setLimit(semaphore: LockRef): Request =
        start("set_limit", semaphore.name) { native.setLimit(handle, it, semaphore.bytes) }

    fun held(lock: LockRef, owner: Owner): Request =
        start("inspect", lock.name) { native.held(handle, it, lock.bytes, owner.context) }

    /** Returns whether a holder of [lock] would wait for itself if it acquired [wanted]. */
    fun keepsOut(lock: LockRef, wanted: LockRef): Boolean = native.keepsOut(handle, lock.bytes, wanted.bytes)

    fun remainingNanos(lease: HeldLease): Long = native.remaining(handle, lease.id)

    /** Returns whether [lease] is held, or was lost in a way that still needs a release. */
    fun tracks(lease: HeldLease): Boolean = leases.containsKey(lease.id)

    /** Cancels [request]. Returns false if the reply came before. Otherwise, a grant that still arrives is released. */
    fun cancel(request: Request): Boolean {
        if (!request.cancel(false)) {
            return false
        }
        pending.remove(request.tag)
        if (request.native >= 0) {
            native.cancel(handle, request.native)
        }
        return true
    }

    /** Waits for the reply, at most [timeout]; then cancels the request and returns null. An interrupt cancels it too. */
    fun awaitAtMost(request: Request, timeout: Duration): Reply? {
        try {
            val nanos = if (timeout > LONGEST) LONGEST.toNanos() else timeout.toNanos()
            return request.get(nanos.coerceAtLeast(0), TimeUnit.NANOSECONDS)
        } catch (_: TimeoutException) {
            return if (cancel(request)) null else request.join()
        } catch (interrupt: InterruptedException) {
            cancel(request)
            throw interrupt
        }
    }

    /** Waits for the reply. An interrupt cancels the request. */
    fun awaitInterruptibly(request: Request): Reply {
        try {
            return request.get()
        } catch (interrupt: InterruptedException) {
            if (cancel(request)) {
                throw interrupt
            }
            // The reply came first, so it counts. Sets the interrupt status again for later code.
            Thread.currentThread().interrupt()
            return request.join()
        }
    }

    /** Returns the metrics of the client in Prometheus' text format. */
    fun metrics(): String = metricsOf(native.metrics(handle) ?: counted)

    /** Returns the metrics of the client as rows. */
    fun metricRows(): List<Metric> = metricsOf(native.metricRows(handle) ?: countedRows)

    /**
     * Returns the label `group` that [metrics] give to a lock of this name; null without metrics or after the close.
     */
    fun metricsGroup(name: String): String? = native.metricsGroup(handle, name)

    /**
     * Reports acquisitions to [observer] from now on.
     *
     * @throws IllegalStateException if only one observer of its class is allowed, and there is one already
     */
    fun observe(observer: Observer) {
        observers.add(observer)
        if (isClosed) {
            unobserve(observer)
            throw clientClosed(null, "inspect").toException()
        }
    }

    /**
     * Stops reporting new acquisitions to [observer]. The observer still gets the reports of acquisitions that it
     * already observes.
     */
    fun unobserve(observer: Observer) = observers.remove(observer)

    /**
     * Closes the client within 500 ms, even if the server and the logger are slow. A second call waits for the first.
     */
    fun close() {
        if (closing.compareAndSet(false, true)) {
            val start = System.nanoTime()
            warnOfHeldLocks()
            try {
                knowsOutcomes = start("close", null) { native.close(handle, it) }.await(CLOSE_LIMIT_MS) == Reply.Closed
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

    /** Logs a warning that names the locks that the program holds and the close releases. */
    private fun warnOfHeldLocks() {
        val held =
            leases.values
                .filter { !it.isReleasing && it.lostReason == null }
                .map { lease ->
                    "\"${displayName(lease.name)}\"" + lease.owner.threadName?.let { " (thread $it)" }.orEmpty()
                }
                .distinct()
        if (held.isEmpty()) return
        val more = if (held.size > MAX_NAMED) " and ${held.size - MAX_NAMED} more" else ""
        val named = held.take(MAX_NAMED).joinToString(", ")
        Log.warn("a SteadlockClient is closed while it holds locks, which are released: $named$more")
    }

    /**
     * Handles a client that the program dropped without closing it. Held locks stay held, because the program may rely
     * on a lock whose client is garbage. The client closes when it has no leases and no requests any more.
     */
    fun drop() {
        if (closing.get()) return
        val names = leases.values.map(HeldLease::name).distinct()
        isDropped = true
        wake()
        val held = names.map(::displayName)
        val now = if (held.isEmpty()) "its connection is closed now" else "it stays open for the locks it holds: $held"
        Log.warn("a SteadlockClient was dropped without close(); $now")
    }

    /** Releases the holds of threads that have ended, and waits for the releases. */
    fun releaseAbandonedNow(timeoutMs: Long) {
        val abandoned = abandoned()
        if (abandoned.isNotEmpty()) {
            native.releaseNow(handle, abandoned.map(HeldLease::id), timeoutMs)
        }
    }

    /**
     * Makes the event thread return from native code every [EXIT_WAIT_MS] ms, because a JVM that ends waits up to
     * 300 ms for threads in native code.
     */
    fun allowJvmExit() {
        longestWaitMs = EXIT_WAIT_MS
        wake()
    }

    override fun granted(tag: Long, lease: Long, token: Long?, isDegraded: Boolean) {
        val request = pending.remove(tag)
        val acquisition = request?.acquisition
        if (acquisition == null) {
            // The caller cancelled the request while the grant was on its way here.
            native.endRun(handle, tags.incrementAndGet(), lease, RunEnd.UNUSED, null)
            return
        }
        val observed = acquisition.observed?.granted(token, isDegraded) { native.remaining(handle, lease) }
        val granted = HeldLease(this, lease, acquisition, token, isDegraded, observed)
        leases[lease] = granted
        if (!request.complete(Reply.Granted(granted))) {
            granted.startRelease(Ending.UNUSED)
        }
    }

    override fun released(tag: Long, lease: Long, outcome: ReleaseOutcome, lost: LostReason?) {
        val released = Reply.Released(outcome, lost)
        if (tag == NO_REQUEST) {
            closeOutcomes[lease] = released
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
            // The native part answers calls about a lost lease from an object of its own, which it may forget only when
            // [lost] is garbage.
            cleaner.register(lost, forgetAction(native, handle, lease))
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
            // The native part may have received the request before the failure, for example if the caller's stack is
            // full. A grant that arrives later is released, because its request is not pending any more. A grant that
            // has arrived already is released here, on another thread.
            pending.remove(request.tag)
            if (!request.cancel(false)) {
                (request.getNow(null) as? Reply.Granted)?.let {
                    callbacks.runInternal { it.lease.startRelease(Ending.UNUSED) }
                }
            }
            throw failure
        }
        if (request.native < 0 && pending.remove(request.tag) != null) {
            request.complete(Reply.Failed(refusal(request.native, operation, name)))
        }
        return request
    }

    private fun refusal(code: Long, operation: String, name: String?): Failure =
        if (code == NativeApi.DROPPED) {
            clientClosed(name, operation)
        } else {
            val why = "a defect in the native part (code $code)"
            Failure("Unavailable", operation, "$operation: $why; please report it", name, cause = why)
        }

    /** Wakes the event thread, by a request whose reply needs no server call. */
    private fun wake() {
        start("inspect", null) { native.held(handle, it, ANY_LOCK.bytes, 0) }
    }

    private fun startEvents() {
        val events = Thread(null, ::fetchEvents, "steadlock-events-$handle", 0, false)
        try {
            events.apply { isDaemon = true }.start()
        } catch (refused: OutOfMemoryError) {
            throw noThread(refused).toException()
        }
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
            val idle = if (leases.isEmpty() && !isDropped && !callbacks.needsThreads) IDLE_MS else SWEEP_MS
            val written = native.next(handle, min(longestWaitMs, idle), buffer)
            if (written < 0) {
                return
            }
            buffer.clear().limit(written)
            EventReader(buffer).readAll(this)
            val now = System.nanoTime()
            if (now - swept >= TimeUnit.MILLISECONDS.toNanos(SWEEP_MS)) {
                swept = now
                sweep()
                callbacks.startMissingThreads()
            }
            if (isDropped && !closing.get() && leases.isEmpty() && pending.isEmpty()) {
                callbacks.runInternal(::close)
            }
        }
    }

    /** Fails all requests and marks all leases as lost, because no event can reach the program any more. */
    private fun failAll(cause: Throwable?) {
        val failure = { request: Request ->
            if (cause == null && closing.get()) {
                clientClosed(request.name, request.operation)
            } else {
                clientFailed(request.name, request.operation, cause)
            }
        }
        // If a close is under way, the close does the rest.
        fail(failure)
        if (closing.compareAndSet(false, true)) {
            discard()
            closed.complete(Unit)
        }
    }

    /** Releases the leases of threads that have ended, and handles leases that the program has dropped. */
    private fun sweep() {
        val abandoned = abandoned().filterNot(HeldLease::isReleasing)
        // Logs one warning for all levels of one hold.
        for (levels in abandoned.groupBy { it.context to it.lock }.values) {
            val lease = levels.first()
            val name = displayName(lease.name)
            Log.warn("thread ${lease.owner.threadName} ended while it held lock \"$name\", which is released now")
            levels.forEach(HeldLease::startRelease)
        }
        leases.values.forEach(HeldLease::warnIfDropped)
    }

    private fun abandoned(): List<HeldLease> = leases.values.filter(HeldLease::isAbandoned)

    /**
     * Drops the native client, and ends everything that is still open. [closingSince] is the time when closing began.
     */
    private fun discard(closingSince: Long = System.nanoTime()) {
        ShutdownHook.remove(this)
        leases.values.forEach { it.markLost(LostReason.CLOSED) }
        leases.clear()
        observers.close { flushMs(closingSince) }
        counted = native.metrics(handle)
        countedRows = native.metricRows(handle)
        native.dropClient(handle)
        fail { clientClosed(it.name, it.operation) }
    }

    private fun <T> metricsOf(counted: Counted<T>?): T {
        val known = counted ?: throw clientClosed(null, "inspect").toException()
        known.failure?.let { throw it.toException() }
        return known.metrics
    }

    /** Returns how long a close that began at [start] may still wait for the program's code. */
    private fun flushMs(start: Long): Long =
        min(FLUSH_MS, CLOSE_MS - TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start))

    private fun fail(failure: (Request) -> Failure) {
        for (tag in pending.keys) {
            val request = pending.remove(tag) ?: continue
            request.complete(Reply.Failed(failure(request)))
        }
    }

    companion object {
        /**
         * Connects. Unless the client is lazy, waits until it is connected or has failed. An interrupt does not end the
         * wait: the thread's interrupt status is set again afterwards.
         */
        fun connect(
            options: ClientOptions,
            callbacks: Callbacks,
            native: NativeApi = NativeApiLoader.instance,
        ): Engine {
            val opened = native.open(options)
            opened.failure?.let { throw it.toException() }
            val engine = Engine(native, opened.handle, callbacks)
            val connecting = Request(CONNECT, "connect", null)
            if (!options.isLazy) {
                engine.pending[CONNECT] = connecting
            }
            callbacks.onShortage(engine::wake)
            try {
                engine.startEvents()
                if (!options.isLazy) {
                    connecting.await().orThrow()
                }
            } catch (failed: RuntimeException) {
                engine.closing.set(true)
                engine.discard()
                engine.closed.complete(Unit)
                throw failed
            }
            ShutdownHook.add(engine)
            return engine
        }

        /**
         * Returns the action for a lost lease that has become garbage. A function of its own, so that the action does
         * not refer to the lease.
         */
        private fun forgetAction(native: NativeApi, handle: Long, lease: Long) =
            Runnable { native.forget(handle, lease) }

        /** The tag of the connect request; the tags of other requests count up from here. */
        private const val CONNECT = 0L

        /** The tag of the outcomes of releases that the close made: they answer no request. */
        private const val NO_REQUEST = -1L
        private val LONGEST = Duration.ofDays(36_500)
        private const val BUFFER_BYTES = 64 * 1024
        private const val IDLE_MS = 3_600_000L

        /** The largest number of locks that one log line names. */
        private const val MAX_NAMED = 10
        private const val SWEEP_MS = 1_000L
        private const val EXIT_WAIT_MS = 5L
        private val ANY_LOCK = Kind.LOCK.ref("-")

        /** The time limit of the core for closing. */
        private const val CLOSE_MS = 500L

        /** The time limit for the reply of the core, in case the reply is lost. */
        private const val CLOSE_LIMIT_MS = 1_000L

        /**
         * How long a close waits for the logger and for telemetry, because the program may end right after the close.
         */
        private const val FLUSH_MS = 100L
    }
}

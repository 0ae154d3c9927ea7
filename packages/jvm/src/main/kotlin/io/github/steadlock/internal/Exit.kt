package io.github.steadlock.internal

import java.util.concurrent.ConcurrentHashMap

/**
 * What happens when the JVM ends: holds of threads that have ended are released. Threads that still run, such as
 * those of a service that drains after SIGTERM, keep theirs, and a hold without a thread expires with its lease.
 */
internal object Exit {
    private val engines: MutableSet<Engine> = ConcurrentHashMap.newKeySet()

    /** There only while there are clients: the JVM keeps a hook, and with it the class loader of its program. */
    private var hook: Thread? = null

    @Synchronized
    fun add(engine: Engine) {
        engines.add(engine)
        if (hook == null) {
            hook = Thread(null, ::releaseAbandoned, "steadlock-exit", 0, false)
            unlessEnding { addShutdownHook(hook) }
        }
    }

    @Synchronized
    fun remove(engine: Engine) {
        engines.remove(engine)
        if (engines.isEmpty() && hook != null) {
            unlessEnding { removeShutdownHook(hook) }
            hook = null
        }
    }

    private fun unlessEnding(change: Runtime.() -> Unit) {
        try {
            Runtime.getRuntime().change()
        } catch (_: IllegalStateException) {
            // The JVM is ending already.
        }
    }

    private fun releaseAbandoned() {
        val deadline = System.nanoTime() + LIMIT_MS * NANOS_PER_MS
        for (engine in engines) {
            val left = (deadline - System.nanoTime()) / NANOS_PER_MS
            engine.releaseAbandonedNow(left.coerceAtLeast(0))
        }
        engines.forEach(Engine::letTheJvmEnd)
    }

    private const val LIMIT_MS = 250L
    private const val NANOS_PER_MS = 1_000_000L
}

package io.github.steadlock.internal

import java.util.concurrent.ConcurrentHashMap

/**
 * The shutdown hook that releases the holds of ended threads when the JVM ends. Threads that still run, such as those
 * of a service that drains after SIGTERM, keep their holds. The holds of stages and coroutines end with their leases.
 */
internal object ShutdownHook {
    private val engines: MutableSet<Engine> = ConcurrentHashMap.newKeySet()

    /** Registered only while there are clients, because a hook keeps the class loader of its program alive. */
    private var hook: Thread? = null

    @Synchronized
    fun add(engine: Engine) {
        engines.add(engine)
        if (hook == null) {
            hook = Thread(null, ::releaseAbandoned, "steadlock-exit", 0, false)
            unlessShuttingDown { addShutdownHook(hook) }
        }
    }

    @Synchronized
    fun remove(engine: Engine) {
        engines.remove(engine)
        if (engines.isEmpty() && hook != null) {
            unlessShuttingDown { removeShutdownHook(hook) }
            hook = null
        }
    }

    private fun unlessShuttingDown(change: Runtime.() -> Unit) {
        try {
            Runtime.getRuntime().change()
        } catch (_: IllegalStateException) {
            // The JVM is already ending.
        }
    }

    private fun releaseAbandoned() {
        val deadline = System.nanoTime() + LIMIT_MS * NANOS_PER_MS
        for (engine in engines) {
            val left = (deadline - System.nanoTime()) / NANOS_PER_MS
            engine.releaseAbandonedNow(left.coerceAtLeast(0))
        }
        engines.forEach(Engine::allowJvmExit)
    }

    private const val LIMIT_MS = 250L
    private const val NANOS_PER_MS = 1_000_000L
}

package io.leasehold.internal

import java.util.concurrent.ConcurrentHashMap

/**
 * What happens when the JVM ends: holds of threads that have ended are released. Threads that still run, such as
 * those of a service that drains after SIGTERM, keep theirs, and a hold without a thread lapses by its lease.
 */
internal object Exit {
    private val engines: MutableSet<Engine> = ConcurrentHashMap.newKeySet()

    init {
        try {
            Runtime.getRuntime().addShutdownHook(Thread(::releaseAbandoned, "leasehold-exit"))
        } catch (_: IllegalStateException) {
            // The JVM is ending already.
        }
    }

    fun add(engine: Engine) {
        engines.add(engine)
    }

    fun remove(engine: Engine) {
        engines.remove(engine)
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

package io.github.steadlock.internal

import com.sun.jna.Platform
import java.security.AccessController
import java.security.PrivilegedAction

/** The native part of this process, loaded at its first use. */
internal object LoadedFace {
    private val loaded: Result<NativeFace> by lazy { runCatching(::load) }

    /** The one in use. Where it cannot be loaded, each call says why. */
    val instance: NativeFace
        get() = loaded.getOrElse { throw missing(it) }

    /**
     * JNA starts a thread that never ends. It must not inherit the class loaders of the program that happens to be
     * the first: neither the context's nor, before Java 24, those of the callers.
     */
    @Suppress("DEPRECATION", "removal")
    private fun load(): NativeFace =
        AccessController.doPrivileged(
            PrivilegedAction {
                val thread = Thread.currentThread()
                val before = thread.contextClassLoader
                thread.contextClassLoader = NativeFace::class.java.classLoader
                try {
                    JnaFace().apply { vocabulary() }
                } finally {
                    thread.contextClassLoader = before
                }
            },
        )

    private fun missing(cause: Throwable): UnsatisfiedLinkError {
        val platform = Platform.RESOURCE_PREFIX
        val file = System.mapLibraryName(LIBRARY)
        val isPacked = NativeFace::class.java.classLoader?.getResource("$platform/$file") != null
        val library = MissingLibrary(file, platform, isPacked, MissingLibrary.isMusl())
        return UnsatisfiedLinkError(library.explain(cause)).apply { initCause(cause) }
    }

    private const val LIBRARY = "steadlock_jvm"
}

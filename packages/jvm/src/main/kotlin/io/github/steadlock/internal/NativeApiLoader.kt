package io.github.steadlock.internal

import com.sun.jna.Platform
import java.security.AccessController
import java.security.PrivilegedAction

/** The native part of this process, loaded at the first use. */
internal object NativeApiLoader {
    private val loaded: Result<NativeApi> by lazy { runCatching(::load) }

    /** The loaded native part. If loading failed, each access throws the reason. */
    val instance: NativeApi
        get() = loaded.getOrElse { throw missing(it) }

    /**
     * Loads the native part. JNA starts a thread that never ends, which would inherit the class loaders of the first
     * program that uses the library: the context class loader and, before Java 24, those of the callers. This function
     * hides both from that thread, so that a server can unload the program. The call of `vocabulary` makes uniffi load
     * the library here, and not later.
     */
    @Suppress("DEPRECATION", "removal")
    private fun load(): NativeApi =
        AccessController.doPrivileged(
            PrivilegedAction {
                val thread = Thread.currentThread()
                val before = thread.contextClassLoader
                thread.contextClassLoader = NativeApi::class.java.classLoader
                try {
                    JnaApi().apply { vocabulary() }
                } finally {
                    thread.contextClassLoader = before
                }
            },
        )

    private fun missing(cause: Throwable): UnsatisfiedLinkError {
        val platform = Platform.RESOURCE_PREFIX
        val file = System.mapLibraryName(LIBRARY)
        val isPacked = NativeApi::class.java.classLoader?.getResource("$platform/$file") != null
        val library = MissingLibrary(file, platform, isPacked, MissingLibrary.isMusl())
        return UnsatisfiedLinkError(library.explain(cause)).apply { initCause(cause) }
    }

    private const val LIBRARY = "steadlock_jvm"
}

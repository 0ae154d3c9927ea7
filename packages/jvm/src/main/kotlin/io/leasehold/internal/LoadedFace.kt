package io.leasehold.internal

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
        val library = System.mapLibraryName(LIBRARY)
        val isPacked = NativeFace::class.java.getResource("/$platform/$library") != null
        val message =
            if (isPacked) {
                "connect: the native library $library could not be unpacked or loaded ($cause); if the folder " +
                    "for temporary files cannot be written to, or nothing may be executed from it, name another " +
                    "one with -Djna.tmpdir=FOLDER"
            } else {
                "connect: there is no native library for $platform in the jar ($library is missing); take a jar " +
                    "that was built on this platform, or name the library's folder with -Djna.library.path=FOLDER"
            }
        return UnsatisfiedLinkError(message).apply { initCause(cause) }
    }

    private const val LIBRARY = "leasehold_jvm"
}

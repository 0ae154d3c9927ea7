package io.github.steadlock.internal

/**
 * The ranges and defaults of the core, for the Spring starters, which check annotations and properties before there is
 * a client.
 */
internal object CoreLimits {
    /** Returns the ranges and defaults. Loads the native part at the first use. */
    @JvmStatic
    fun get(): Limits = NativeApiLoader.instance.limits()
}

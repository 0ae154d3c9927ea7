package io.github.steadlock.internal

/**
 * Returns a lock's name as messages show it. The core hides the userinfo of a URL, which a program may have passed by
 * mistake instead of a name.
 */
internal fun displayName(name: String): String = NativeApiLoader.instance.displayName(name)

package io.github.steadlock.internal

/**
 * Returns a lock's name as messages show it. The core hides the userinfo of a URL, which a program may have passed by
 * mistake instead of a name.
 */
internal fun shown(name: String): String = LoadedFace.instance.shown(name)

package io.github.steadlock.internal

/**
 * A lock's name as messages show it: without the userinfo of a URL, which may have been passed in its place. What it
 * hides, the core decides.
 */
internal fun shown(name: String): String = LoadedFace.instance.shown(name)

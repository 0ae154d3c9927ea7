package io.github.steadlock.internal

import java.lang.ref.Cleaner

/** Does what is to be done when the program has something no longer. */
internal val cleaner: Cleaner = Cleaner.create()

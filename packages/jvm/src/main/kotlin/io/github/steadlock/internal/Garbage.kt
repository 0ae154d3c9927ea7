package io.github.steadlock.internal

import java.lang.ref.Cleaner

/** Runs clean-up actions for objects that have become garbage. */
internal val cleaner: Cleaner = Cleaner.create()

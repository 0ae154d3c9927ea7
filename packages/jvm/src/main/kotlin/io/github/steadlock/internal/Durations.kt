package io.github.steadlock.internal

import java.time.Duration
import java.util.concurrent.TimeUnit
import kotlin.time.DurationUnit

/** Converts to milliseconds for the core. Never overflows; the core checks the range. */
internal fun Duration.millis(): Double = seconds * 1e3 + nano / 1e6

/** Converts to milliseconds for the core. An infinite duration stays infinite. */
internal fun kotlin.time.Duration.millis(): Double = toDouble(DurationUnit.MILLISECONDS)

/** Converts [amount] of this unit to milliseconds for the core. Never overflows. */
internal fun TimeUnit.millis(amount: Long): Double = amount.toDouble() * toNanos(1) / 1e6

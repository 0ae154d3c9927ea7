package io.github.steadlock.internal

import java.time.Duration
import java.util.concurrent.TimeUnit
import kotlin.time.DurationUnit

/** Milliseconds as the core takes them. Never overflows; the core checks the range. */
internal fun Duration.millis(): Double = seconds * 1e3 + nano / 1e6

/** Milliseconds as the core takes them; infinity stays infinity. */
internal fun kotlin.time.Duration.millis(): Double = toDouble(DurationUnit.MILLISECONDS)

/** Milliseconds as the core takes them, of [amount] of this unit. Never overflows. */
internal fun TimeUnit.millis(amount: Long): Double = amount.toDouble() * toNanos(1) / 1e6
